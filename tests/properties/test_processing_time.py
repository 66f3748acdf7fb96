"""What goes by processing time does what goes by event time would, had each message the time at which it came."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fluvial.dsl import KeyedStream, Pipeline, collect, hopping, session, tumbling
from fluvial.runtime.testing import PipelineDriver
from generators.how_many import examples

START = 1_700_000_000_000
PARTITIONS = 2
Time = Literal["event", "processing"]
Stream = KeyedStream[str, str]
Make = Callable[[Stream, Stream, Time], None]


class Step(NamedTuple):
    """A message: how long after the last one it comes (ms), the time it claims, and whether there is a crash after."""

    wait: int
    claimed: int
    stream: str
    key: str
    crash: bool


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(0, 60) | st.integers(0, 600),
        st.integers(0, 10**12),
        st.sampled_from(["left", "right"]),
        st.sampled_from("ab"),
        st.booleans(),
    ),
    max_size=25,
)


def both(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def _windows(assigner: object) -> Make:
    def make(left: Stream, right: Stream, time: Time) -> None:
        for name, stream in (("lefts", left), ("rights", right)):
            stream.window(assigner, collect(), id=name, time=time).send_to(name)  # type: ignore[arg-type]

    return make


def _joined(how: Literal["inner", "left", "outer"], retain: Literal["all", "latest"]) -> Make:
    def make(left: Stream, right: Stream, time: Time) -> None:
        within = timedelta(milliseconds=100)
        left.join(right, both, id="joined", within=within, how=how, retain=retain, time=time).send_to("joined")

    return make


OPERATORS: dict[str, Make] = {
    "tumbling": _windows(tumbling(timedelta(milliseconds=100))),
    "hopping": _windows(hopping(timedelta(milliseconds=100), timedelta(milliseconds=40))),
    "session": _windows(session(timedelta(milliseconds=80))),
    "inner join": _joined("inner", "all"),
    "left join": _joined("left", "all"),
    "outer join": _joined("outer", "all"),
    "join of the latest": _joined("inner", "latest"),
}


def pipeline(name: str, time: Time, *, moved: bool) -> Pipeline:
    """The operator on two keyed streams, or behind a border."""
    made = Pipeline("by-clock")
    streams = [made.stream(stream, key=str, value=str) for stream in ("left", "right")]
    if moved:
        streams = [stream.partition_by(_key, id=f"by-{n}", key_type=str) for n, stream in enumerate(streams)]
    OPERATORS[name](streams[0], streams[1], time)
    return made


def _key(value: str) -> str:
    return value[0]


def outputs(driver: PipelineDriver) -> Counter[tuple[str, bytes | None, bytes | None, int]]:
    names = [stream.name for stream in driver.plan.streams if stream.kind == "output"]
    return Counter((name, key, value, at) for name in names for key, value, at, _ in driver.records.read(name))


def by_clock(made: Pipeline, steps: Sequence[Step]) -> Counter[tuple[str, bytes | None, bytes | None, int]]:
    with PipelineDriver(made, partitions=PARTITIONS, start=START) as driver:
        for number, step in enumerate(steps):
            driver.advance(timedelta(milliseconds=step.wait))
            value = f"{step.key}{number}"
            driver.send(step.stream, value, key=step.key, timestamp=step.claimed)
            if step.crash:
                driver.crash()
                driver.restart()
        assert driver.report().late == {}
        driver.end()
        return outputs(driver)


def by_event(made: Pipeline, steps: Sequence[Step]) -> Counter[tuple[str, bytes | None, bytes | None, int]]:
    now = START
    with PipelineDriver(made, partitions=PARTITIONS) as driver:
        for number, step in enumerate(steps):
            now += step.wait
            driver.send(step.stream, f"{step.key}{number}", key=step.key, timestamp=now)
        driver.end()
        return outputs(driver)


@pytest.mark.parametrize("name", OPERATORS)
@settings(max_examples=examples(40))
@given(moved=st.booleans(), steps=STEPS)
def test_processing_time_is_the_time_of_arrival(name: str, moved: bool, steps: list[Step]) -> None:
    found = by_clock(pipeline(name, "processing", moved=moved), steps)
    assert found == by_event(pipeline(name, "event", moved=moved), steps)


def test_a_window_closes_by_the_clock_though_nothing_comes() -> None:
    made = Pipeline("quiet")
    words = made.stream("words", key=str, value=str)
    words.window(tumbling(timedelta(seconds=1)), collect(), id="seconds", time="processing").send_to("seconds")
    with PipelineDriver(made, start=START) as driver:
        driver.send("words", "tea", key="a", timestamp=0)
        driver.advance(timedelta(milliseconds=999))
        assert driver.read("seconds") == []
        driver.advance(timedelta(milliseconds=1))
        (pane,) = driver.read("seconds")
        assert pane.value.value == ["tea"]
        assert (pane.timestamp, pane.value.window.end) == (START + 999, START + 1000)
