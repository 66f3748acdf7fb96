"""Samples that both engines report in the same way."""

from collections.abc import Iterator, Mapping

from ...planner.plan import Plan
from ..kernel.time.bounds import END, START
from ..report import Sample

Place = tuple[str, str, str, str]
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


def watermark_samples(watermark: int | None, place: Place) -> Iterator[Sample]:
    """The watermark in seconds. There is none before the first message and after the end of input."""
    if watermark is not None and watermark not in (START, END):
        yield Sample("watermark_timestamp_seconds", watermark / 1000, place)
