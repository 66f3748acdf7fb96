"""What is measured of one task."""

from collections.abc import Iterator, Mapping

from ...planner.plan import Plan
from ..metrics.facts import operator_facts, watermark_facts
from ..report import Fact
from ..systems.contract import StreamPartition
from .task import LocalTask


def task_facts(plan: Plan, task: LocalTask, lags: Mapping[StreamPartition, int]) -> Iterator[Fact]:
    """The facts of a task; `lags` has those of its inputs that are known."""
    where = (task.stage.id, task.name)
    yield from _input_facts(task, where, lags)
    yield Fact("messages_in_flight", len(task.work.cells), where)
    for id, pool in task.work.pools.items():
        yield Fact("calls_in_flight", pool.in_flight, (*where, id))
    work = task.work
    yield from operator_facts(plan, where, work.taken_in, work.late, work.failures.counts, work.keyless)
    for stream, number in task.written.items():
        yield Fact("messages_written", number, (*where, stream))
    yield Fact("commits", task.commits, where)
    yield Fact("staged_bytes", task.outbox.size, where)


def _input_facts(task: LocalTask, where: tuple[str, str], lags: Mapping[StreamPartition, int]) -> Iterator[Fact]:
    watermarks, read, waiting = task.work.inputs.watermarks(), task.read, task.waiting
    for stream in task.inputs:
        place = (*where, stream, str(task.number))
        yield Fact("messages_read", task.taken.get(stream, 0), place)
        yield Fact("messages_processed", read.get(stream, 0), place)
        yield Fact("messages_queued", waiting[stream], place)
        if (stream, task.number) in lags:
            yield Fact("lag_messages", lags[(stream, task.number)], place)
        if stream in task.offsets:
            yield Fact("committed_offset", task.offsets[stream], place)
        yield from watermark_facts(watermarks.get(stream), place)
