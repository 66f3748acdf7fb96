"""What random pipelines, crashes and orders have found once, each in its smallest form."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import (
    KeyedStream,
    Pane,
    Pipeline,
    after_count,
    count,
    repeat,
    session,
    skip,
    total,
    tumbling,
    unbounded,
)
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.kernel.compiler.compiler import compile_stage
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.time.border_watermarks import TRAILER_SIZE, unpack_trailer
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.testing import PipelineDriver

TEN = tumbling(timedelta(milliseconds=10))


def keyed(pipeline: Pipeline) -> KeyedStream[str, int]:
    return pipeline.stream("in", value=int, key=str)


def at_most_two(value: int) -> int:
    if value > 2:
        raise ValueError(value)
    return value


def counted(pane: Pane[str, int]) -> int:
    return pane.value


def panes(driver: PipelineDriver, stream: str) -> list[tuple[int, str, int]]:
    found = [message.value for message in driver.read(stream)]
    return [(pane.window.end, pane.kind, pane.value) for pane in found]


async def at_once(value: int) -> list[int]:
    return [value]


async def slow_below_ten(value: int) -> list[int]:
    await asyncio.sleep(1 if value < 10 else 0)
    return [value]


def test_a_key_that_cannot_be_decoded_fails_at_its_source() -> None:
    pipeline = Pipeline("p", on_error=skip())
    keyed(pipeline).window(TEN, count(), id="window").send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.records.send("in", [(b"\xff", b"1", 0, ())])
        assert driver.report().failed == {"stream-1": 1}
        driver.end()
        assert driver.read("out") == []


def test_a_pane_with_two_readers_is_sent_to_neither_if_one_fails() -> None:
    pipeline = Pipeline("p", on_error=skip())
    window = keyed(pipeline).window(TEN, count(), id="window")
    window.send_to("panes")
    window.map(counted).map(lambda value: 1 // (value - 1)).send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", 1, key="a", timestamp=0)
        driver.end()
        assert driver.read("panes") == []


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_message_that_fails_in_one_window_is_in_no_other(asynchronous: bool) -> None:
    pipeline = Pipeline("p", on_error=skip())
    source = keyed(pipeline)
    source = source.async_flat_map(at_once, id="call") if asynchronous else source
    source.window(session(timedelta(milliseconds=5)), count(), id="good").send_to("good")
    source.window(TEN, count(), id="good-too").send_to("good")
    source.window(TEN, total(at_most_two), id="bad").send_to("bad")
    with PipelineDriver(pipeline) as driver:
        for value in (1, 3, 2):
            driver.send("in", value, key="a", timestamp=0)
        driver.end()
        assert sorted(panes(driver, "good")) == [(6, "on_time", 2), (10, "on_time", 2)]
        assert panes(driver, "bad") == [(10, "on_time", 3)]


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_late_pane_is_not_sent_if_its_message_fails_elsewhere(asynchronous: bool) -> None:
    pipeline = Pipeline("p", on_error=skip())
    source = keyed(pipeline)
    source = source.async_flat_map(at_once, id="call") if asynchronous else source
    lateness = timedelta(seconds=1)
    source.window(TEN, count(), id="late", lateness=lateness).send_to("late")
    source.window(TEN, total(at_most_two), id="bad", lateness=lateness).send_to("bad")
    with PipelineDriver(pipeline) as driver:
        for value, time in ((1, 20), (3, 0), (2, 0)):
            driver.send("in", value, key="a", timestamp=time)
        assert panes(driver, "late") == [(10, "late", 1)]


def test_a_window_that_was_never_entered_knows_what_is_late() -> None:
    pipeline = Pipeline("p")
    evens = keyed(pipeline).filter(lambda value: value == 2)
    evens.window(TEN, count(), id="window", lateness=timedelta(seconds=1)).send_to("out")
    with PipelineDriver(pipeline) as driver:
        for value, time in ((1, 20), (2, 0)):
            driver.send("in", value, key="a", timestamp=time)
        assert panes(driver, "out") == [(10, "late", 1)]


def test_time_waits_for_the_panes_behind_a_call() -> None:
    pipeline = Pipeline("p")
    source = keyed(pipeline)
    first = source.window(TEN, count(), id="first").map(counted)
    both = first.merge(source).async_flat_map(at_once, id="call")
    both.window(TEN, total(int), id="second").send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.records.send("in", [(b"a", b"1", time, ()) for time in (0, 0, 0, 11, 11)])
        report = driver.end()
        assert (report.late, panes(driver, "out")) == ({}, [(10, "on_time", 6), (20, "on_time", 4)])


def test_a_call_does_not_wait_for_one_that_is_in_flight() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).async_flat_map(slow_below_ten, id="call", order="none").send_to("out")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", 1)
        driver.send("in", 10)
        assert [message.value for message in driver.read("out")] == [10]


def test_a_call_submitted_as_the_last_one_ends_is_made() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).async_flat_map(at_once, id="call").send_to("out")

    async def work(task: Any, records: Any) -> int:
        for offset in range(2):
            task.feed("in", 0, range(offset, offset + 1), records)
            await asyncio.sleep(0)  # as long as a call takes, and no longer
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return sum(len(made) for _, made in task.drain_outputs())

    assert asyncio.run(work(bare_task(pipeline), [(None, b"1", 0, ())])) == 2


def bare_task(pipeline: Pipeline) -> Any:
    program = compile_stage(plan(pipeline), "in", {"in": "source"}, trailers=True)
    return StageTask(program, MemoryStore())


def test_a_message_in_flight_at_a_crash_is_not_late_when_it_comes_again() -> None:
    pipeline = Pipeline("p")
    looked_up = keyed(pipeline).async_flat_map(slow_below_ten, id="look-up", order="none")
    crossed = looked_up.partition_by(str, id="by-value", key_type=str, value=int)
    crossed.window(TEN, count(), id="window").map(counted).send_to("out")
    with PipelineDriver(pipeline, commits="timed") as driver:
        driver.send("in", 1, key="a", timestamp=1)
        driver.send("in", 20, key="a", timestamp=20)
        driver.commit()
        driver.crash()
        driver.restart()
        driver.end()
        # 20 had landed, and comes twice behind the border: that is at least once.
        assert sorted(message.value for message in driver.read("out")) == [1, 2]


def test_time_behind_a_border_does_not_wait_for_tasks_that_read_nothing_for_it() -> None:
    pipeline = Pipeline("p")
    narrow, wide = pipeline.stream("narrow", value=int), pipeline.stream("wide", value=int)
    narrow.partition_by(str, id="by-value", key_type=str).window(TEN, count(), id="window").send_to("out")
    narrow.merge(wide).send_to("both")
    with PipelineDriver(pipeline, partitions={"narrow": 1, "wide": 3}) as driver:
        for time in (0, 5, 50):
            driver.send("narrow", 1, timestamp=time)
        assert panes(driver, "out") == [(10, "on_time", 2)]
        driver.restart()
        driver.send("narrow", 1, timestamp=90)
        assert panes(driver, "out") == [(10, "on_time", 2), (60, "on_time", 1)]
        driver.end()
        assert panes(driver, "out") == [(10, "on_time", 2), (60, "on_time", 1), (100, "on_time", 1)]


def test_time_passes_a_window_that_has_nothing_to_fire() -> None:
    pipeline = Pipeline("p")
    first = keyed(pipeline).filter(bool).window(TEN, count(), id="first").map(counted)
    crossed = first.partition_by(str, id="by-count", key_type=str)
    crossed.window(tumbling(timedelta(milliseconds=100)), count(), id="second").send_to("out")
    with PipelineDriver(pipeline) as driver:
        for value, time in ((1, 0), (0, 15), (0, 1000)):
            driver.send("in", value, key="a", timestamp=time)
        assert panes(driver, "out") == [(100, "on_time", 1)]


def test_a_message_from_the_end_of_time_does_not_end_the_input() -> None:
    pipeline = Pipeline("p", on_error=skip())
    keyed(pipeline).window(TEN, count(), id="window").send_to("out")
    with PipelineDriver(pipeline) as driver:
        for time in (0, 2**63 - 1, 1, 20):
            driver.send("in", 1, key="a", timestamp=time)
        assert panes(driver, "out") == [(10, "on_time", 2)]
        assert driver.report().failed == {"stream-1": 1}


@pytest.mark.parametrize("together", [False, True])
def test_what_a_trigger_shows_crosses_with_the_time_of_its_message(together: bool) -> None:
    pipeline = Pipeline("p")
    shown = keyed(pipeline).window(unbounded(), count(), id="all", trigger=repeat(after_count(1))).map(counted)
    shown.partition_by(str, id="again", key_type=str, value=int).send_to("out")
    records: list[Record] = [(b"a", b"1", time, ()) for time in (0, 100, 1)]
    with PipelineDriver(pipeline, commits="timed") as driver:
        for batch in [records] if together else [[record] for record in records]:
            driver.records.send("in", batch)
        driver.commit()
        crossed = [record[1] for record in driver.records.partition("p-again", 0)]
        assert [unpack_trailer(value[-TRAILER_SIZE:]) for value in crossed if value] == [(0, START), (0, 0), (0, 100)]
