"""Metrics of queries on Spark, under the names that the local engine uses. Spark has no metrics by task."""

from collections.abc import Iterator, Mapping

from ....planner.plan import Plan
from ...metrics.samples import PartitionLabels, operator_samples, watermark_samples
from ...report import Sample
from .connection import Offsets
from .job_tasks import JobTasks


def source_samples(plan: Plan, done: Offsets, planned: Offsets, ends: Offsets) -> Iterator[Sample]:
    """Metrics of how far sources have been read. `done` are the end offsets of batches that are done, `planned` those
    of planned ones, `ends` the current ends of the streams."""
    in_flight: dict[str, int] = {}
    for stream, offsets in done.items():
        stage = _reader(plan, stream)
        in_flight[stage] = in_flight.get(stage, 0) + sum(planned[stream]) - sum(offsets)
        for number, (offset, end) in enumerate(zip(offsets, ends[stream], strict=True)):
            labels: PartitionLabels = (stage, "", stream, str(number))
            yield Sample("lag_messages", max(0, end - offset), labels)
            yield Sample("committed_offset", offset, labels)
    for stage, messages in in_flight.items():
        yield Sample("messages_in_flight", messages, (stage, ""))


def count_samples(
    plan: Plan, counts: Mapping[str, Mapping[str, int]], watermarks: Mapping[str, int]
) -> Iterator[Sample]:
    """Metrics of what was counted since the start of the run (see `Counts`), and of watermarks, by "stream/partition",
    or "stream/" where one holds for all of a stream."""
    read, written, given, late, failed, keyless = (
        counts.get(kind, {}) for kind in ("read", "written", "given", "late", "failed", "keyless")
    )
    for stream in (stream for stage in plan.stages for stream in stage.inputs):
        yield Sample("messages_processed", read.get(stream, 0), (_reader(plan, stream), "", stream, ""))
    for name, number in written.items():
        yield Sample("messages_written", number, (_writer(plan, name), "", name))
    for name, watermark in watermarks.items():
        stream, _, partition = name.rpartition("/")
        yield from watermark_samples(watermark, (_reader(plan, stream), "", stream, partition))
    all_given = {operator.id: given.get(operator.id, 0) for operator in plan.operators}
    yield from operator_samples(plan, None, all_given, late, failed, keyless)


def task_samples(tasks: JobTasks) -> Iterator[Sample]:
    """Metrics of how far the present batch is."""
    yield Sample("batch_tasks", tasks.all)
    yield Sample("batch_tasks_done", tasks.done)


def _reader(plan: Plan, stream: str) -> str:
    return next((stage.id for stage in plan.stages if stream in stage.inputs), "")


def _writer(plan: Plan, name: str) -> str:
    """The stage that writes a stream or a sink; empty for dead letters, which all stages write."""
    writers = {operator.stage for operator in plan.operators if operator.id == name or name in operator.writes}
    return writers.pop() if len(writers) == 1 else ""
