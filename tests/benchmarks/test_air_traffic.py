"""The benchmark of air traffic control measures what it says."""

from pathlib import Path

import pytest

from benchmarks.air_traffic import CONTENDERS, cost, fill, latencies, let_timers_wait, serving
from examples.air_traffic_control.servers import stands
from fluvial.planner import Settings
from fluvial.runtime import open_system


@pytest.mark.slow
def test_each_contender_tells_the_same_members() -> None:
    with serving():
        costs = [cost(contender, events=200) for contender in CONTENDERS]
    told = {one["told"] for one in costs}
    assert len(told) == 1
    assert min(told) > 20
    assert all(one["processor"] > 0 for one in costs)


@pytest.mark.slow
def test_urgent_events_are_timed_while_others_wait(tmp_path: Path) -> None:
    url = f"log:{tmp_path}"
    let_timers_wait(url, 50, Settings(guarantee="exactly_once"))
    admin = open_system(url).admin()
    assert admin.ends("told") == [0]
    fill(open_system(url), {"urgent": []})
    with serving():
        timed = latencies(url, rate=100, seconds=2)
    assert all(seconds > 0 for seconds in timed)
    told = sum(admin.ends("told"))
    assert 20 < told <= sum(stands(f"i{one}") for one in range(0, 700, 20))
    assert len(timed) == told - sum(stands(f"i{one}") for one in range(0, 500, 20))  # whatever was on its way
