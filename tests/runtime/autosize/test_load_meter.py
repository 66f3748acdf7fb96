"""The load of a run, measured from what its containers report."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.reported_load import planned, told
from fluvial.runtime import Progress
from fluvial.runtime.autosize import InputLoad
from fluvial.runtime.autosize.load_meter import LoadMeter
from fluvial.runtime.report import HotKey

WINDOW = 20.0


def measured(meter: LoadMeter, *reports: Progress, at: float = 0.0) -> None:
    for one in reports:
        meter.add(one, at + one.seconds)


def test_rates_are_of_the_window() -> None:
    meter = LoadMeter(planned(), WINDOW)
    measured(meter, *(told(float(at), lag=50.0 * at) for at in range(1, 41)))
    load = meter.load(40.0, 1)
    assert load is not None
    assert load.seconds == pytest.approx(WINDOW)
    assert load.tasks["in/0"].inputs == {"in": InputLoad(150.0, 100.0, 2010.0)}
    task, container = load.tasks["in/0"], load.containers[0]
    assert task.busy == pytest.approx(0.1)
    assert task.calls == 0.75
    assert container.busy == pytest.approx(0.5)
    assert container.committing == pytest.approx(0.05)
    assert container.processor == pytest.approx(0.25)
    assert container.memory == 1000
    assert load.numbers == {"in": 2, "p-by": 2}
    assert load.writers == {"p-by": "in"}
    assert (load.size.containers, load.size.elasticity) == (1, {"in": 1, "p-by": 1})


def test_nothing_is_reported_before_the_window_is_full() -> None:
    meter = LoadMeter(planned(), WINDOW)
    measured(meter, *(told(float(at)) for at in range(1, 15)))
    assert meter.load(15.0, 1) is None
    measured(meter, *(told(float(at)) for at in range(15, 30)))
    assert meter.load(30.0, 2) is None  # of the second container nothing is known
    assert meter.load(30.0, 1) is not None
    assert meter.load(99.0, 1) is None  # it has not reported for long


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(told(1.0), id="another process"),
        pytest.param(told(41.0, generation=2), id="another generation"),
        pytest.param(told(41.0, tasks=("in/0",)), id="other tasks"),
        pytest.param(told(41.0, phase="restoring"), id="a restore"),
    ],
)
def test_it_begins_anew_after(change: Progress) -> None:
    meter = LoadMeter(planned(), WINDOW)
    measured(meter, *(told(float(at)) for at in range(1, 41)))
    meter.add(change, 41.0)
    assert meter.load(41.0, 1) is None


def test_key_buckets_share_what_waits_in_their_partition_by_what_they_process() -> None:
    parts = tuple(f"{stage}/{number}-{bucket}-2" for stage in ("in", "p-by") for number in (0, 1) for bucket in (0, 1))
    meter = LoadMeter(planned(2), WINDOW)
    halves = [[part for part in parts if part.endswith(f"-{bucket}-2")] for bucket in (0, 1)]
    for at in range(1, 41):
        for container, per_second in ((0, 100.0), (1, 300.0)):
            own = tuple(halves[container])
            hot = (HotKey(own[0], "in", "1", 0.4), HotKey(own[0], "in", "2", 0.2))
            meter.add(
                told(float(at), container=container, tasks=own, per_second=per_second, lag=70.0, hot=hot), float(at)
            )
    load = meter.load(40.0, 2)
    assert load is not None
    assert load.tasks["in/0-0-2"].inputs["in"].lag == pytest.approx(80 / 4)
    assert load.tasks["in/0-1-2"].inputs["in"].lag == pytest.approx(80 * 3 / 4)
    assert load.tasks["in/0-0-2"].hottest == 0.4
    assert load.size.elasticity == {"in": 2, "p-by": 2}


@given(st.lists(st.sampled_from(["in/0", "in/1", "p-by/0", "p-by/1"]), min_size=1))
def test_tasks_that_are_missing_or_twice_are_on_their_way(names: list[str]) -> None:
    meter = LoadMeter(planned(), WINDOW)
    for at in range(1, 41):
        meter.add(told(float(at), tasks=tuple(dict.fromkeys(names))), float(at))
        meter.add(told(float(at), container=1, tasks=("in/0",)), float(at))
    whole = {*names} == {"in/1", "p-by/0", "p-by/1"}
    assert (meter.load(40.0, 2) is not None) == whole
