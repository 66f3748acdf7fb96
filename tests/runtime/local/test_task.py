"""A task at work: what it processes in one step, and what of that a commit takes."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import timedelta
from typing import Any

import pytest

from engines.local_tasks import local_run
from engines.targets import contents, write
from fluvial.dsl import Collector, Envelope, Message, Pipeline, StreamTask, TaskCoordinator, count, tumbling
from fluvial.dsl.message import Record
from fluvial.runtime.kernel.firing_pauses import TURN
from fluvial.runtime.local.task import LocalTask
from fluvial.runtime.output_routes import MOST_IN_SINKS
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import RecordBatch

HOUR = timedelta(hours=1)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def counting(stack: ExitStack, **settings: Any) -> LocalTask:
    pipeline, system = Pipeline("p"), MemorySystem()
    pipeline.stream("in", key=str, value=int).window(tumbling(HOUR), count(), id="w").send_to("out")
    write(system, {"in": [[]]})
    (task,) = local_run(pipeline, system, stack, **settings).tasks
    return task


def queue(task: LocalTask, *times: int) -> None:
    records: list[Record] = [(b"k", b"1", time, ()) for time in times]
    start = task.queues.positions["in", 0]
    task.queues.add(RecordBatch("in", 0, range(start, start + len(records)), records))


def test_a_step_processes_at_most_so_many_messages(stack: ExitStack) -> None:
    task = counting(stack)
    queue(task, 1, 2, 3)
    assert task.step(2)
    assert task.queues.processed == 2
    assert task.step(2)
    assert not task.step(2)
    assert task.queues.processed == 3


def test_a_commit_has_the_offsets_and_changes_of_what_was_processed(stack: ExitStack) -> None:
    task = counting(stack)
    assert (task.has_changes, task.new) == (False, True)
    queue(task, 1, 2)
    task.step()
    assert task.has_changes
    commit = task.prepare_commit()
    assert commit is not None
    assert (commit.checkpoint.offsets, commit.checkpoint.number) == ({"in": 2}, 1)
    assert b"k" in [key for _, key, _ in commit.changes]


def test_the_input_ends_once_all_before_its_end_has_landed(stack: ExitStack) -> None:
    task = counting(stack)
    queue(task, 1, 2)
    assert not task.end_inputs({("in", 0): 2})
    task.step()
    assert not task.view.done
    assert task.end_inputs({("in", 0): 2})
    assert (task.view.done, task.view.open_inputs) == (True, [])


def test_much_changed_state_makes_a_commit_due(stack: ExitStack) -> None:
    task = counting(stack, cached_entries=1)
    assert not task.commit_is_large
    queue(task, 1)
    task.step()
    assert task.commit_is_large


def test_outputs_that_take_much_room_make_a_commit_due(stack: ExitStack) -> None:
    pipeline, system = Pipeline("p"), MemorySystem()
    pipeline.stream("in", value=int).send_to("out")
    write(system, {"in": [[]]})
    (task,) = local_run(pipeline, system, stack, max_staged_bytes=1).tasks
    assert not task.commit_is_large
    queue(task, 1)
    task.step()
    assert task.commit_is_large


class Holding:
    """A sink that holds messages until it is flushed; it tells the most that it held."""

    def __init__(self) -> None:
        self.held = self.most = 0

    def open(self) -> None:
        """Nothing to open."""

    def write(self, messages: Sequence[Message[int]]) -> None:
        self.held += len(messages)
        self.most = max(self.most, self.held)

    def flush(self) -> None:
        self.held = 0

    def close(self) -> None:
        """Nothing to close."""


def test_what_sinks_hold_makes_a_commit_due(stack: ExitStack) -> None:
    pipeline, system, sink = Pipeline("p"), MemorySystem(), Holding()
    pipeline.stream("in", value=int).sink(sink, id="held")
    write(system, {"in": [[]]})
    (task,) = local_run(pipeline, system, stack).tasks
    queue(task, *range(MOST_IN_SINKS))
    while task.step():
        pass
    assert task.commit_is_large
    assert task.prepare_commit() is not None
    assert (sink.most, task.commit_is_large) == (MOST_IN_SINKS, False)


def test_a_long_firing_leaves_others_their_turn(stack: ExitStack) -> None:
    task, keys = counting(stack), 2 * TURN
    records: list[Record] = [(b"%d" % key, b"1", 0, ()) for key in range(keys)]
    task.queues.add(RecordBatch("in", 0, range(keys + 1), [*records, (b"k", b"1", 3_600_000, ())]))
    steps = 0
    while task.step(keys + 1):
        steps += task.view.paused
    assert steps >= 1
    assert task.metrics().written == {"out": keys}


class Ticking(StreamTask[Any, str, str]):
    """Tells that its time has come."""

    def process(self, envelope: Envelope[Any, str], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        """Nothing is sent."""

    def window(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        collector.send("window")


@pytest.mark.parametrize("unread", [None, {"in"}])
def test_times_of_the_clock_fire_once(stack: ExitStack, unread: set[str] | None) -> None:
    pipeline, system = Pipeline("p"), MemorySystem()
    ticking = pipeline.task(Ticking, pipeline.stream("in", value=str), id="x", window=timedelta(seconds=1))
    ticking.send_to("out", value=str)
    write(system, {"in": [[]]})
    (task,) = local_run(pipeline, system, stack).tasks
    for now in (0, 1_000, 1_999, 2_000):
        task.set_clock(now, unread)
        queue(task, now)
        task.step()
    assert task.metrics().written == {"out": 2}


class Stopping(StreamTask[Any, str, str]):
    """Votes for the end of the run where a message says so, and sends nothing."""

    def process(self, envelope: Envelope[Any, str], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del collector
        if envelope.value == "stop":
            coordinator.shutdown()


@pytest.mark.parametrize("many", [False, True], ids=["alone", "behind flat_map"])
def test_a_request_in_mid_batch_counts_and_the_task_goes_on(stack: ExitStack, many: bool) -> None:
    pipeline, system = Pipeline("p"), MemorySystem()
    words = pipeline.stream("in", value=str)
    pipeline.task(Stopping, words.flat_map(str.split) if many else words, id="x").send_to("out", value=str)
    write(system, {"in": [[]]})
    (task,) = local_run(pipeline, system, stack).tasks
    records: list[Record] = [(None, word, 0, ()) for word in (b"stop", b"a", b"b")]
    task.queues.add(RecordBatch("in", 0, range(3), records))
    task.step()
    assert task.queues.processed == 1
    (request,) = task.take_requests()
    assert request.shutdown == "task"
    task.step()
    assert task.queues.processed == 3


class Ending(StreamTask[Any, str, str]):
    """Tells how its input has ended."""

    def process(self, envelope: Envelope[Any, str], collector: Collector[str], coordinator: TaskCoordinator) -> None:
        """Nothing comes."""

    def on_end_of_stream(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        collector.send("end")

    def on_drain(self, collector: Collector[str], coordinator: TaskCoordinator) -> None:
        del coordinator
        collector.send("drain")


@pytest.mark.parametrize("ends_by_drain", [False, True])
def test_an_end_over_a_border_is_that_of_a_drain_where_the_container_has_not_heard_of_it(
    stack: ExitStack, ends_by_drain: bool
) -> None:
    pipeline, system = Pipeline("p"), MemorySystem()
    words = pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str)
    pipeline.task(Ending, words, id="x", state="task").send_to("out", value=str)
    write(system, {"in": [[]]})
    run = local_run(pipeline, system, stack, ends_by_drain=ends_by_drain)
    assert run.tasks[0].end_inputs({("in", 0): 0})
    while run.container.turn() or run.container.commit_ready():
        pass
    assert [record[1] for record in contents(system, "out")] == [b"drain" if ends_by_drain else b"end"]
