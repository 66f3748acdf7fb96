"""The default autosizer in virtual time: it follows the load, in few decisions, and never swings."""

from datetime import timedelta
from itertools import pairwise
from math import cos, pi
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.simulated_run import SimulatedRun, SimulatedStage
from fluvial.dsl import UsageError
from fluvial.runtime.autosize import BusyTimeAutosizer, RunSize, SizeBounds
from generators.how_many import examples

BOUNDS = SizeBounds((1, 8), (1, 16))
ONE = {"in": SimulatedStage(2, 0.001)}
TWO = {"in": SimulatedStage(4, 0.0003), "by-key": SimulatedStage(4, 0.0008, writer="in")}
SETTLED = 2400.0
"""Seconds in which a run has settled after a step, three waits of five minutes and a lag included."""


def containers(changes: list[tuple[float, RunSize]]) -> list[int]:
    return [size.containers for _, size in changes]


def turns(numbers: list[int]) -> int:
    """How often the number of containers went down after it went up, or up after it went down. Once is no swing: what
    has waited meanwhile takes more of them for a while."""
    ways = [later > earlier for earlier, later in pairwise(numbers) if later != earlier]
    return sum(one != other for one, other in pairwise(ways))


@pytest.mark.parametrize("stages", [ONE, TWO], ids=["one stage", "two stages"])
def test_a_step_and_back_is_followed(stages: dict[str, SimulatedStage]) -> None:
    run, autosizer = SimulatedRun(stages, BOUNDS), BusyTimeAutosizer()
    assert run.run(lambda _: 500, 600, autosizer) == []
    up = containers(run.run(lambda _: 2500, SETTLED, autosizer))
    assert 1 <= len(up) <= 3
    assert turns(up) <= 1
    assert run.lag < 2500  # what waited is processed
    assert run.run(lambda _: 2500, 3600, autosizer) == []  # and stays so
    down = containers(run.run(lambda _: 500, SETTLED, autosizer))
    assert down == sorted(down, reverse=True)
    assert 1 <= len(down) <= 3
    assert run.size.containers == 1


@settings(max_examples=examples(60, least=6), deadline=None)
@given(st.floats(100, 4000), st.floats(100, 4000), st.integers(0, 1000))
def test_it_settles_after_any_step_and_never_swings(before: float, after: float, seed: int) -> None:
    run, autosizer = SimulatedRun(TWO, BOUNDS, seed), BusyTimeAutosizer()
    run.run(lambda _: before, SETTLED, autosizer)
    began = run.size.containers
    numbers = [began, *containers(run.run(lambda _: after, SETTLED, autosizer))]
    assert len(numbers) <= 4
    assert turns(numbers) <= (after > before)
    assert run.run(lambda _: after, SETTLED, autosizer) == []


def test_a_day_like_a_sine_is_followed_without_a_swing() -> None:
    run, autosizer, day = SimulatedRun(TWO, BOUNDS), BusyTimeAutosizer(), 4 * 3600
    numbers = containers(run.run(lambda at: 1800 - 1500 * cos(2 * pi * at / day), day, autosizer))
    most = numbers.index(max(numbers)) + 1
    assert numbers[:most] == sorted(numbers[:most])
    assert numbers[most:] == sorted(numbers[most:], reverse=True)
    assert max(numbers) >= 4
    assert run.size.containers == 1
    assert run.lag < 2000


def test_a_burst_is_processed_and_the_containers_given_back_once() -> None:
    run, autosizer = SimulatedRun(TWO, BOUNDS), BusyTimeAutosizer()
    changes = containers(run.run(lambda at: 3000 if 600 <= at < 660 else 500, 3600, autosizer))
    assert run.lag < 500
    assert run.size.containers == 1
    assert len(changes) <= 4


def test_no_container_is_added_for_a_service_that_is_slow() -> None:
    run = SimulatedRun({"in": SimulatedStage(2, 0.0001, limit=500)}, BOUNDS)
    assert run.run(lambda _: 1000, 1800, BusyTimeAutosizer()) == []
    assert run.last is not None
    assert "stage in waits for its calls" in run.last.reason


def test_one_hot_key_is_reported_and_takes_no_more_containers_than_help() -> None:
    run = SimulatedRun({"in": SimulatedStage(1, 0.001, hot=0.6)}, BOUNDS)
    changes = containers(run.run(lambda _: 2000, 3600, BusyTimeAutosizer()))
    assert len(changes) <= 3
    assert run.size.containers <= 4
    assert run.last is not None
    assert "one key needs" in run.last.reason


def test_no_container_is_added_where_the_processors_are_busy() -> None:
    bounds = SizeBounds((1, 8), (1, 16), processors=2)
    run = SimulatedRun({"in": SimulatedStage(4, 0.001)}, bounds)
    run.run(lambda _: 5000, 1800, BusyTimeAutosizer())
    assert run.size.containers == 2
    assert run.last is not None
    assert "2 processors can work for" in run.last.reason


def test_memory_takes_containers_as_time_does() -> None:
    run = SimulatedRun(ONE, SizeBounds((1, 8), memory=60 << 20))  # each takes 100 MiB
    run.run(lambda _: 100, 100, BusyTimeAutosizer())
    assert run.size.containers == 2
    assert "memory" in run.decisions[0][1].reason


def test_the_bounds_hold() -> None:
    run, autosizer = SimulatedRun(TWO, SizeBounds((2, 3), (1, 2))), BusyTimeAutosizer()
    run.run(lambda _: 9000, 1800, autosizer)
    assert run.size.containers == 3
    assert set(run.size.elasticity.values()) <= {1, 2}
    run.run(lambda _: 1, 36000, autosizer)
    assert run.size.containers == 2


def test_nothing_is_decided_for_a_while_after_a_change() -> None:
    run = SimulatedRun(ONE, BOUNDS)
    run.run(lambda _: 1500, 100, BusyTimeAutosizer(cool_down=timedelta(hours=1)))
    assert len(run.decisions) == 1
    autosizer = BusyTimeAutosizer(cool_down=timedelta(hours=1))
    run.run(lambda _: 100, 40, autosizer)
    run.run(lambda _: 4000, 1800, autosizer)
    assert len(run.decisions) == 2


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"utilization": 1.5}, "utilization=1.5"),
        ({"utilization": "much"}, "utilization='much'"),
        ({"catch_up": 5}, "catch_up=5"),
        ({"cool_down": timedelta(0)}, "cool_down=datetime.timedelta(0)"),
    ],
)
def test_a_wrong_argument_is_refused(arguments: dict[str, Any], wrong: str) -> None:
    with pytest.raises(UsageError) as raised:
        BusyTimeAutosizer(**arguments)
    assert wrong in str(raised.value)
