"""Conformance cases about the run loop: commits beside calls in flight, timeouts of what time lets out, what is read
and what wakes a task. Overruled: each operator has a timeout of its own, and so has one behind a window (R18-R20)."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from engines.targets import contents, write
from fluvial.dsl import (
    AsyncCollector,
    AsyncStreamTask,
    Collector,
    Envelope,
    MessageError,
    Pipeline,
    StreamTask,
    TaskCoordinator,
    ValueState,
    collect,
    tumbling,
)
from fluvial.dsl.message import Record
from fluvial.planner import Settings, plan
from fluvial.runtime import run
from fluvial.runtime.kernel.time.border_watermarks import read_control
from fluvial.runtime.local.checkpoints.checkpoint import decode
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import RecordBatch, StreamPartition
from fluvial.runtime.systems.memory import MemoryConsumer, MemoryProducer
from fluvial.runtime.systems.reads import read_to_ends
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)


def texts(*values: str) -> Sequence[Record]:
    return [(None, value.encode(), 0, ()) for value in values]


def committed(driver: PipelineDriver) -> tuple[int, set[str]]:
    """The offset in the last checkpoint of the task, and what is to be read of the output."""
    kept = driver._admin.checkpoints(driver.plan.name).get("in/0")
    offset = decode(kept, "in/0").offsets.get("in", 0) if kept else 0
    return offset, {message.value for message in driver.read("out")}


class Waiting(AsyncStreamTask[Any, str, str]):
    """Takes as many seconds as a message says, and asks for a commit where it says so."""

    async def process(
        self, envelope: Envelope[Any, str], collector: AsyncCollector[str], coordinator: TaskCoordinator
    ) -> None:
        seconds, *verbs = envelope.value.split()
        await asyncio.sleep(int(seconds))
        collector.send(envelope.value)
        if "commit" in verbs:
            coordinator.commit()


class Remembering(Waiting):
    """The same, with a state."""

    last = ValueState(str)


async def waited(value: str) -> list[str]:
    await asyncio.sleep(int(value.split(maxsplit=1)[0]))
    return [value]


def task(kind: type[Waiting]) -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.task(kind, pipeline.stream("in", value=str), id="x").send_to("out", value=str)
    return pipeline


def calls() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).async_flat_map(waited, id="x", order="none").send_to("out")
    return pipeline


def test_r15_a_commit_that_is_asked_for_is_made_while_another_message_is_in_flight() -> None:
    with PipelineDriver(task(Waiting), commits="timed", settings=Settings(async_commit=True)) as driver:
        driver.records.send("in", texts("0 commit", "9"))
        assert committed(driver) == (1, {"0 commit"})
        assert driver.report().read == {"in": 2}
        driver.advance(9 * SECOND)
        driver.commit()
        assert committed(driver) == (2, {"0 commit", "9"})


def test_r15_with_a_state_the_commit_waits_for_it() -> None:
    with PipelineDriver(task(Remembering), commits="timed") as driver:
        driver.records.send("in", texts("0 commit", "9"))
        assert committed(driver) == (0, set())
        driver.advance(9 * SECOND)
        assert committed(driver) == (2, {"0 commit", "9"})


@pytest.mark.parametrize("made", [calls, lambda: task(Waiting)], ids=["calls", "task"])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_r15_with_long_calls_in_flight_what_is_before_them_is_committed_each_second(
    made: Callable[[], Pipeline], guarantee: Any
) -> None:
    """A message a second; each tenth takes half a minute. Exactly once, a commit waits for all that is in flight, and
    so does all that comes."""
    offsets = list[int]()
    with PipelineDriver(made(), commits="timed", settings=Settings(guarantee=guarantee)) as driver:
        for second in range(60):
            driver.records.send("in", texts("30" if second % 10 == 0 else "0"))
            driver.advance(SECOND)
            offsets.append(committed(driver)[0])
    if guarantee == "at_least_once":
        assert [offsets[second] for second in (9, 35, 45, 55)] == [0, 10, 20, 30]
        assert len({*offsets}) > 3
    else:
        assert {*offsets} == {0, 1, 31}


class Counting(Waiting):
    """Counts the messages, and asks for a commit at each."""

    all = ValueState(int, 0)

    async def process(
        self, envelope: Envelope[Any, str], collector: AsyncCollector[str], coordinator: TaskCoordinator
    ) -> None:
        await asyncio.sleep(int(envelope.value))
        collector.apply(self.add, collector)
        coordinator.commit()

    def add(self, collector: AsyncCollector[str]) -> None:
        self.all.value += 1
        collector.send(f"{self.all.value}")


def test_o14_commits_that_are_asked_for_while_one_waits_are_one_with_it() -> None:
    with PipelineDriver(task(Counting), commits="timed") as driver:
        (one,) = driver._tasks
        driver.records.send("in", texts("1", "2", "3", "9"))
        driver.advance(3 * SECOND)
        assert committed(driver) == (0, set())  # three were asked for, and the first waits for what is in flight
        before = one.number
        driver.advance(6 * SECOND)
        assert (one.number - before, committed(driver)) == (1, (4, {"1", "2", "3", "4"}))


class FullAfterTwo(MemorySystem):
    """Publishes two commits, and then no more."""

    def producer(self, name: str = "") -> MemoryProducer:
        producer = super().producer(name)
        publish, left = producer.publish, [2]

        def publish_two(token: bytes) -> None:
            if not left[0]:
                raise OSError("the disk is full")
            left[0] -= 1
            publish(token)

        producer.publish = publish_two  # type: ignore[method-assign]
        return producer


class Committing(StreamTask[Any, str, str]):
    """Asks for a commit at each message."""

    def process(self, envelope: Envelope[Any, str], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        collector.send(envelope.value)
        coordinator.commit()


def test_o13_a_commit_that_fails_ends_the_run_at_once() -> None:
    """Overruled: no step of a commit goes on behind it, so that none has to wait for the next commit to be told."""
    system, pipeline = FullAfterTwo(), Pipeline("p")
    pipeline.task(Committing, pipeline.stream("in", value=str), id="x").send_to("out", value=str)
    write(system, {"in": [texts("a", "b", "c", "d")]})
    with pytest.raises(OSError, match="the disk is full"):
        run(pipeline, system=system, until="end")
    assert [record[1] for record in contents(system, "out")] == [b"a", b"b"]


def timed(message: timedelta | None, pane: timedelta | None, seconds: int = 1) -> Pipeline:
    """Calls for messages, and calls for panes, each of which takes so many seconds, with these timeouts."""
    options: list[dict[str, Any]] = [{} if timeout is None else {"timeout": timeout} for timeout in (message, pane)]

    async def with_pane(values: list[str]) -> list[str]:
        await asyncio.sleep(seconds)
        return values

    pipeline = Pipeline("p")
    called = pipeline.stream("in", key=str, value=str).async_flat_map(waited, id="message", **options[0])
    panes = called.window(tumbling(SECOND), collect(), id="w").map(lambda pane: pane.value)
    panes.async_flat_map(with_pane, id="pane", **options[1]).send_to("out", value=str)
    return pipeline


def at(time: int) -> Sequence[Record]:
    return [(b"k", b"0", time, ())]


def test_r18_what_time_lets_out_may_take_longer_than_a_message() -> None:
    with PipelineDriver(timed(5 * SECOND, 15 * SECOND, 10)) as driver:
        driver.records.send("in", [*at(0), *at(2000)])  # the second fires the window of the first
        driver.advance(10 * SECOND)
        driver.records.send("in", at(4000))
        assert [message.value for message in driver.read("out")] == ["0"]
        assert driver.report().read == {"in": 3}


def test_r19_what_time_lets_out_may_be_given_less() -> None:
    with PipelineDriver(timed(10 * SECOND, SECOND, 5)) as driver:
        driver.records.send("in", [*at(0), *at(2000)])
        with pytest.raises(MessageError, match=r"async_flat_map pane failed.*(?s:.*)TimeoutError"):
            driver.advance(5 * SECOND)


def test_r20_without_a_timeout_of_its_own_it_has_that_of_all_calls() -> None:
    def timeouts(message: timedelta | None, pane: timedelta | None) -> list[str]:
        made = plan(timed(message, pane))
        return [made.operator(id).details["timeout"] for id in ("message", "pane")]

    assert timeouts(None, None) == ["1 min", "1 min"]
    assert timeouts(None, 20 * SECOND) == ["1 min", "20 s"]


class Asked(MemorySystem):
    """Notes what each poll asks for; gives one record at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.polls: list[frozenset[StreamPartition]] = []

    def consumer(self, *, max_records: int = 1) -> MemoryConsumer:
        consumer = super().consumer(max_records=max_records)
        poll = consumer.poll

        def noting(timeout: float = 0.0, wanted: frozenset[StreamPartition] | None = None) -> list[RecordBatch]:
            self.polls.append(wanted or frozenset())
            return poll(timeout, wanted)

        consumer.poll = noting  # type: ignore[method-assign]
        return consumer


def test_r26_a_partition_that_was_read_to_its_end_is_read_no_more() -> None:
    system, pipeline = Asked(), Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    write(system, {"in": [texts("a"), texts(*"bcdefg")]})
    run(pipeline, system=system, until="end")
    asked = Counter(partition for wanted in system.polls for partition in wanted)
    assert (asked["in", 0], asked["in", 1]) == (1, 6)
    assert len(contents(system, "out")) == 7


def test_m10_each_task_tells_each_partition_of_time_once() -> None:
    """Overruled: no task passes on what others have told, so that one copy for each is all there is."""
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str)
    keyed.window(tumbling(SECOND), collect(), id="w").map(lambda pane: pane.value).send_to("out", value=list[str])
    settings = Settings(intermediate_partitions=4)
    with PipelineDriver(pipeline, partitions=2, settings=settings) as driver:
        driver.records.send("in", [(None, b"a", 5000, ())], partition=1)
        system = driver._system
        batches = [*read_to_ends(system, "p-by", [0] * 4, system.admin().ends("p-by"))]
    stamps = [(batch.partition, headers[0][1]) for batch in batches for _, _, _, headers in batch.records if headers]
    controls = [(partition, read_control(stamp)) for partition, stamp in stamps]
    told = Counter((partition, control.producer) for partition, control in controls if control is not None)
    assert told == Counter({(partition, 1): 1 for partition in range(4)})


class Windowed(StreamTask[Any, str, str]):
    """Is called by the clock."""

    def process(self, envelope: Envelope[Any, str], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        collector.send(envelope.value)

    def window(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        collector.send("window")


def test_p15_only_what_follows_the_clock_is_woken_by_it() -> None:
    stateless, windowed = Pipeline("p"), Pipeline("p")
    stateless.stream("in", value=str).map(str.upper).send_to("out")
    windowed.task(Windowed, windowed.stream("in", value=str), id="x", window=2 * SECOND).send_to("out", value=str)
    for pipeline, clocked, called in ((stateless, False, 0), (windowed, True, 2)):
        with PipelineDriver(pipeline) as driver:
            assert [one.program.clocked for one in driver._tasks] == [clocked]
            driver.advance(5 * SECOND)
            assert len(driver.read("out")) == called


def test_p17_a_stage_has_as_many_tasks_as_its_largest_input_has_partitions() -> None:
    pipeline = Pipeline("p")
    first, *others = (pipeline.stream(name, value=str) for name in ("a", "b", "c"))
    first.merge(*others).send_to("out")
    assert plan(pipeline, partitions={"a": 2, "b": 32, "c": 16}).stages[0].tasks == 32
    assert plan(pipeline).stages[0].tasks == 1  # nothing is known of them
