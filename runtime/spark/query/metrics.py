"""What is measured of queries on Spark, in the names of the local engine; what Spark does not tell by task has none."""

from collections.abc import Iterator, Mapping, Sequence

from ....planner.plan import Plan
from ...metrics.samples import Place, operator_samples, watermark_samples
from ...report import Sample

Offsets = Mapping[str, Sequence[int]]
"""Offsets by stream and partition."""


def source_facts(plan: Plan, done: Offsets, planned: Offsets, ends: Offsets) -> Iterator[Sample]:
    """How far sources have been read: in the batches that are `done`, and in those that are `planned`; to be read are
    they up to their `ends`."""
    under_way: dict[str, int] = {}
    for stream, offsets in done.items():
        stage = _reader(plan, stream)
        under_way[stage] = under_way.get(stage, 0) + sum(planned[stream]) - sum(offsets)
        for number, (offset, end) in enumerate(zip(offsets, ends[stream], strict=True)):
            place: Place = (stage, "", stream, str(number))
            yield Sample("lag_messages", max(0, end - offset), place)
            yield Sample("committed_offset", offset, place)
    for stage, messages in under_way.items():
        yield Sample("messages_in_flight", messages, (stage, ""))


def count_facts(plan: Plan, counts: Mapping[str, Mapping[str, int]], watermarks: Mapping[str, int]) -> Iterator[Sample]:
    """What was counted since the start (see `Tally`)."""
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


def _reader(plan: Plan, stream: str) -> str:
    return next((stage.id for stage in plan.stages if stream in stage.inputs), "")


def _writer(plan: Plan, name: str) -> str:
    """The stage that writes a stream or a sink; dead letters come from all."""
    writers = {operator.stage for operator in plan.operators if operator.id == name or name in operator.writes}
    return writers.pop() if len(writers) == 1 else ""
