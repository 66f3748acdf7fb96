"""The metrics of one task at one moment: of its inputs, its operators and its commits."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from ...planner.plan import Plan
from ..metrics.samples import operator_samples, watermark_samples
from ..report import Sample, sums
from ..systems.contract import StreamPartition


@dataclass(frozen=True, slots=True)
class InputMetrics:
    """The metrics of one input: the counts of records that were `read`, of messages that were `processed`, of those
    that were `discarded` as of another key bucket (None where tasks are not split), and of those that are `waiting`;
    the first offset that was not read, the offset of the last commit, and the watermark. `processed` leaves out control
    messages."""

    stream: str
    partition: int
    read: int
    processed: int
    discarded: int | None
    waiting: int
    next_offset: int
    committed_offset: int | None
    watermark: int


@dataclass(frozen=True, slots=True)
class CommitMetrics:
    """The metrics of a task's commits: how many there were, the offsets of the last one by stream, and the bytes of
    outputs that are staged for the next one."""

    number: int
    offsets: Mapping[str, int]
    staged_bytes: int


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """What tasks have counted: their commits, and messages by stream, by operator, or by sink."""

    commits: int = 0
    processed: Mapping[str, int] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)
    late: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    keyless: Mapping[str, int] = field(default_factory=dict)


def total(counts: Iterable[TaskCounts]) -> TaskCounts:
    """Counts of several tasks, added up."""
    parts = list(counts)
    return TaskCounts(
        commits=sum(one.commits for one in parts),
        processed=sums(one.processed for one in parts),
        written=sums(one.written for one in parts),
        late=sums(one.late for one in parts),
        failed=sums(one.failed for one in parts),
        keyless=sums(one.keyless for one in parts),
    )


@dataclass(frozen=True, slots=True)
class TaskMetrics:
    """The metrics of a task at one moment.

    `watermark` is the least of its inputs, `highs` are the largest timestamps of its sources; in ms since epoch.
    `busy_seconds` is the time in which it processed messages, functions that block included. `in_flight` counts
    messages in flight, `calls` the asynchronous calls in flight, by operator, of `most_calls`; adaptive operators may
    have so many `at_once`, and `hedges` were made beside calls that took long. The other counts are of
    messages since the start of the task: those that each operator was `given`, those that were `late`, `failed`, or
    had no key for a table, by operator; and those that were `written`, by stream or by sink. Of calls with a journal
    those were `answered` whose results had been kept, and `kept` counts the others that have ended well.
    """

    name: str
    stage: str
    inputs: tuple[InputMetrics, ...]
    watermark: int
    highs: Mapping[str, int]
    busy_seconds: float
    in_flight: int
    calls: Mapping[str, int]
    most_calls: Mapping[str, int]
    given: Mapping[str, int]
    late: Mapping[str, int]
    failed: Mapping[str, int]
    keyless: Mapping[str, int]
    written: Mapping[str, int]
    commits: int
    staged_bytes: int
    at_once: Mapping[str, int] = field(default_factory=dict)
    hedges: Mapping[str, int] = field(default_factory=dict)
    answered: Mapping[str, int] = field(default_factory=dict)
    kept: Mapping[str, int] = field(default_factory=dict)

    @property
    def processed(self) -> dict[str, int]:
        """The counts of processed messages, by stream; streams without any are left out."""
        return sums({one.stream: one.processed} for one in self.inputs if one.processed)

    @property
    def counts(self) -> TaskCounts:
        """What the task has counted so far."""
        return TaskCounts(self.commits, self.processed, self.written, self.late, self.failed, self.keyless)


def task_samples(plan: Plan, task: TaskMetrics, lags: Mapping[StreamPartition, int]) -> Iterator[Sample]:
    """The samples of a task's metrics; `lags` has the known lags of its inputs."""
    where = (task.stage, task.name)
    for one in task.inputs:
        yield from _input_samples(one, where, lags)
    yield Sample("task_busy_seconds", task.busy_seconds, where)
    yield Sample("messages_in_flight", task.in_flight, where)
    for id, calls in task.calls.items():
        yield Sample("calls_in_flight", calls, (*where, id))
        yield Sample("most_calls_in_flight", task.most_calls[id], (*where, id))
        if id in task.at_once:
            yield Sample("calls_at_once", task.at_once[id], (*where, id))
        if id in task.hedges:
            yield Sample("hedges", task.hedges[id], (*where, id))
    for id, answered in task.answered.items():
        yield Sample("journal_answers", answered, (*where, id))
        yield Sample("journal_entries", task.kept[id], (*where, id))
    yield from operator_samples(plan, where, task.given, task.late, task.failed, task.keyless)
    for stream, number in task.written.items():
        yield Sample("messages_written", number, (*where, stream))
    yield Sample("commits", task.commits, where)
    yield Sample("staged_bytes", task.staged_bytes, where)


def _input_samples(one: InputMetrics, where: tuple[str, str], lags: Mapping[StreamPartition, int]) -> Iterator[Sample]:
    labels = (*where, one.stream, str(one.partition))
    yield Sample("messages_read", one.read, labels)
    yield Sample("messages_processed", one.processed, labels)
    if one.discarded is not None:
        yield Sample("messages_discarded", one.discarded, labels)
    yield Sample("messages_queued", one.waiting, labels)
    if (one.stream, one.partition) in lags:
        yield Sample("lag_messages", lags[(one.stream, one.partition)], labels)
    if one.committed_offset is not None:
        yield Sample("committed_offset", one.committed_offset, labels)
    yield from watermark_samples(one.watermark, labels)
