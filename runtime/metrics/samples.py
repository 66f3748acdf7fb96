"""Samples that both engines report in the same way, and what several tasks report of one partition."""

from collections.abc import Iterable, Iterator, Mapping

from ...planner.plan import Plan
from ..kernel.time.bounds import END, START
from ..report import Histogram, Progress, Sample

PartitionLabels = tuple[str, str, str, str]
"""The values of the labels stage, task, stream and partition; empty where an engine does not know them."""


def operator_samples(
    plan: Plan,
    task: tuple[str, str] | None,
    given: Mapping[str, int],
    late: Mapping[str, int],
    failed: Mapping[str, int],
    keyless: Mapping[str, int],
) -> Iterator[Sample]:
    """Counts of messages by operator: how many it was given, and how many of these were late, failed, or had no key for
    a table. `task` is (stage, task); None where the counts cover all tasks."""
    action = plan.pipeline.on_error.action
    for id in dict.fromkeys([*given, *late, *failed, *keyless]):
        labels = (*(task or (plan.operator(id).stage, "")), id)
        if id in given:
            yield Sample("operator_messages", given[id], labels)
        operator = plan.pipeline.operator(id)
        if operator.role == "both":
            yield Sample("late_messages", late.get(id, 0), labels)
            if not plan.operator(id).writes:
                yield Sample("dropped_messages", late.get(id, 0), (*labels, "late"))
        if operator.kind == "table":
            yield Sample("dropped_messages", keyless.get(id, 0), (*labels, "keyless"))
        if action != "fail":
            yield Sample("failed_messages", failed.get(id, 0), labels)
        if action == "skip":
            yield Sample("dropped_messages", failed.get(id, 0), (*labels, "failed"))
        if action == "dead_letter":
            yield Sample("dead_letters", failed.get(id, 0), labels)


def watermark_samples(watermark: int | None, labels: PartitionLabels) -> Iterator[Sample]:
    """The watermark in seconds. There is none before the first message and after the end of input."""
    if watermark is not None and watermark not in (START, END):
        yield Sample("watermark_timestamp_seconds", watermark / 1000, labels)


def samples_of(containers: Iterable[Progress], metric: str) -> Iterator[Sample]:
    """What all containers report for a metric."""
    return (sample for progress in containers for sample in progress.facts if sample.metric == metric)


def lags_by_stream(containers: Iterable[Progress]) -> dict[str, int]:
    """The lag of each stream. Key buckets, which may be in several containers, read one partition: the one that is
    furthest behind counts."""
    lags: dict[str, dict[str, int]] = {}
    for sample in samples_of(containers, "lag_messages"):
        assert not isinstance(sample.value, Histogram)
        *_, stream, partition = sample.labels
        of_stream = lags.setdefault(stream, {})
        of_stream[partition] = max(int(sample.value), of_stream.get(partition, 0))
    return {stream: sum(of_stream.values()) for stream, of_stream in lags.items()}
