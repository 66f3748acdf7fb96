"""The Spark lowering without Spark: the same functions that its workers run, over batches and buckets made here.

It finds what is wrong with levels, rows, pages and watermarks in milliseconds; the real engine is judged by fewer
cases.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from types import MappingProxyType
from typing import Any, Literal

import pyarrow as pa
from pyspark.cloudpickle import cloudpickle

from engines.targets import with_remote_rows
from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import Plan, plan
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.kernel.time.bounds import END
from fluvial.runtime.spark.batch_report import BatchReport
from fluvial.runtime.spark.batch_times import BatchTimes, StreamTime
from fluvial.runtime.spark.counts import Counts
from fluvial.runtime.spark.frames.batch_job import last_times
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.levels import Levels
from fluvial.runtime.spark.lowering.lowering import components, has_loop, levels, without_order
from fluvial.runtime.spark.lowering.packaging import PlanBundle, pack
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.query.bucket_split import split_times
from fluvial.runtime.spark.query.query_times import QueryTimes, TimesRecord
from fluvial.runtime.spark.rows import OUTPUT, Messages, Row, TaskReport, decode
from fluvial.runtime.spark.worker.batch_level import ARROW_SCHEMA as TIMED
from fluvial.runtime.spark.worker.batch_level import JobTimes, batch_level, timed_batch
from fluvial.runtime.spark.worker.by_time import by_bytes
from fluvial.runtime.spark.worker.control_rows import due_rows, end_rows
from fluvial.runtime.spark.worker.error_texts import checked_report
from fluvial.runtime.spark.worker.inbox import Inbox
from fluvial.runtime.spark.worker.keyed_level import LevelTask
from fluvial.runtime.spark.worker.outputs import RowOutputs
from fluvial.runtime.spark.worker.source_level import level_zero
from fluvial.runtime.spark.worker.state_split import split_state
from fluvial.runtime.systems.contract import RecordBatch
from generators.building import build
from generators.cases import Case, Pieces
from oracle.interpreter import Inputs, OutputMessage, Outputs

BUCKETS = 3

Times = Callable[[str, Record], int]
"""The time of a record of a stream, in ms since epoch."""


class Blobs:
    """State of one bucket."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}

    def get(self, name: bytes) -> bytes | None:
        return self.data.get(name)

    def put(self, name: bytes, data: bytes) -> None:
        self.data[name] = data

    def remove(self, name: bytes) -> None:
        self.data.pop(name, None)


class Asked:
    """What the driver has asked for: a batch from this time on."""

    file = ""

    def __init__(self) -> None:
        self.since = END

    def request(self, since: int) -> None:
        self.since = since


@dataclass
class Query:
    """One connected part of a plan, its state by level and bucket, what it has written, the time by its clock, what its
    driver keeps, and whether buckets are given their blocks backwards."""

    plan: Plan
    shipped: ShippedPlan
    levels: Levels
    buckets: KeyBuckets
    sources: list[str]
    state: dict[tuple[int, int], Blobs] = field(default_factory=lambda: defaultdict(Blobs))
    written: Outputs = field(default_factory=dict)
    counts: Counts = field(default_factory=Counts)
    now: int = 0
    backwards: bool = True
    record: TimesRecord = field(default_factory=TimesRecord)
    asked: Asked = field(default_factory=Asked)
    batches: int = 0
    entered: dict[int, int] = field(default_factory=dict)
    """The rows that each level was given in the last batch."""

    def __post_init__(self) -> None:
        self.restart()

    def restart(self, *, catches_up: bool = False) -> None:
        """Begin another run on the same checkpoint."""
        self.times = QueryTimes(
            self.plan, self.levels, self.record, _kept, self.asked, lambda: self.now, catches_up=catches_up, step=1
        )
        self.times.start()

    def batch(self, ranges: list[RecordBatch], *, end: bool = False) -> None:
        """One micro-batch, and those without messages that the driver asks for behind it."""
        self.one_batch(ranges, end=end)
        while self.asked.since <= 0 and not end:
            self.one_batch([])

    def one_batch(self, ranges: list[RecordBatch], *, end: bool = False) -> None:
        """One micro-batch: level 0 for each range as a task of its own, then the levels by bucket."""
        times = self.times.begin(self.batches)
        rows = due_rows(self.shipped, times.due)
        rows += end_rows(self.shipped) if end else []
        for found in ranges:
            for made in level_zero(self.shipped, found.stream, found.partition, _pieces(found), most=2):
                rows += made
        for level in range(1, self.levels.count):
            rows = self._level(level, rows, times)
        report = BatchReport()
        for level, _, block in rows:
            assert level == OUTPUT
            content = decode(block)
            assert isinstance(content, Messages | TaskReport)
            if isinstance(content, TaskReport):
                report.add(content.report)
            else:
                written = self.written.setdefault(content.stream, [])
                written.extend(OutputMessage(*record) for record in content.records())
        self.counts.add(report.counts)
        self.times.finish(self.batches, report)
        self.batches += 1

    def _level(self, level: int, rows: list[Row], times: BatchTimes) -> list[Row]:
        passed = [row for row in rows if row[0] != level]
        mine: dict[int, list[bytes]] = defaultdict(list)
        for found, label, block in rows:
            if found == level:
                mine[self.buckets.of_label[label]].append(block)
        self.entered[level] = sum(map(len, mine.values()))
        with LevelTask(self.shipped, level, times, self.buckets.labels[0]) as task:
            for bucket, blocks in sorted(mine.items()):
                # A shuffle keeps no order between the tasks that feed it.
                with Inbox(blocks[::-1] if self.backwards else blocks, most=64) as inbox:
                    passed += chain.from_iterable(task.process(bucket, inbox, self.state[(level, bucket)]))
        return passed


def split(query: Query, factor: int) -> Query:
    """The query of a later run, with so many times the key buckets, and what the one before has kept and written."""
    before = query.buckets.count
    (bigger,) = [one for one in queries(query.plan, buckets=factor * before) if one.sources == query.sources]
    states = {store.operator: store.schema for store in query.plan.stores}
    for (level, bucket), blobs in query.state.items():
        parts = split_state(blobs, bucket, before, bigger.buckets.count, states, query.levels.producers)
        for number, held in parts.items():
            bigger.state[level, number].data = dict(held)
    bigger.written, bigger.counts, bigger.now = query.written, query.counts, query.now
    bigger.record = split_times(query.record, before, bigger.buckets.count)
    bigger.restart()
    return bigger


def _kept(_: TimesRecord) -> None:
    """The record stays in memory."""


def _pieces(batch: RecordBatch) -> Iterator[RecordBatch]:
    """A reader gives what it reads in pieces, here of two messages."""
    for at in range(0, len(batch.records), 2):
        part = slice(at, at + 2)
        yield RecordBatch(batch.stream, batch.partition, batch.offsets[part], batch.records[part])


def queries(
    made: Plan,
    resets: Mapping[str, int] | None = None,
    buckets: int = BUCKETS,
    frames: Literal["none", "streaming", "bounded"] = "none",
) -> list[Query]:
    """The queries that the engine would start; `resets` says how often the state of operators was removed. Sources may
    be `frames`, which are bounded in a batch job."""
    found, key_buckets = [], KeyBuckets(buckets)
    for stages in components(made):
        told = levels(made, stages, buckets)
        names = [name for stage in stages for name in stage.inputs if made.stream(name).kind == "source"]
        unordered = frozenset(told.of_stream) if frames == "bounded" else without_order(made, told, names)
        by_time = frozenset[str]() if frames == "none" else unordered
        cache, keeps = Size(2, 1 << 20), frames != "bounded"
        bundle = PlanBundle(made, told, key_buckets, cache, resets or {}, keeps_at_end=keeps, by_time=by_time)
        found.append(Query(made, _packed(bundle), told, key_buckets, names))
    return found


def _packed(bundle: PlanBundle) -> ShippedPlan:
    """A plan whose classes are made anew when it is unpacked, as in a worker. cloudpickle would fill those of
    this process with the copies of their methods instead, and leave them so to the tests that follow."""
    shipped = replace(pack(bundle), run=f"{id(bundle.plan)}")
    cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.clear()
    return shipped


@with_remote_rows
def lowered(case: Case, batch_records: int = 7, splits: Mapping[int, int] = MappingProxyType({})) -> Outputs:
    """A case run to its end in batches of at most so many messages of each partition; tables come in the first. In
    front of the messages with the numbers in `splits` the query gets so many times the key buckets."""
    return lowered_pipeline(build(case.description), case.inputs, batch_records, case.first, splits)


def lowered_pipeline(
    pipeline: Pipeline,
    inputs: Inputs,
    batch_records: int = 7,
    first: Collection[str] = (),
    splits: Mapping[int, int] = MappingProxyType({}),
) -> Outputs:
    """A pipeline run to the end of its inputs in batches of at most so many messages of each partition; the streams
    `first` come whole in the first."""
    made = plan(pipeline, partitions={stream: len(parts) for stream, parts in inputs.items()})
    assert not has_loop(made)
    outputs: Outputs = {}
    for begun in queries(made):
        query = begun
        longest = max((len(part) for name in query.sources for part in inputs[name]), default=0)
        for start in range(0, longest, batch_records):
            if start in splits:
                query = split(query, splits[start])
            ranges = [
                RecordBatch(name, number, range(start, start + len(records)), records)
                for name in query.sources
                for number, part in enumerate(inputs[name])
                if (records := _part(part, start, batch_records, whole=name in first))
            ]
            query.batch(ranges)
        query.batch([], end=True)
        for stream, messages in query.written.items():
            outputs.setdefault(stream, []).extend(messages)
    return outputs


@with_remote_rows
def lowered_in_runs(case: Case, pieces: Pieces, ends: Collection[int]) -> Outputs:
    """A case piece by piece, each message a batch, with an end of input behind each of these numbers of pieces, and one
    at last: what several runs read that go on from their states."""
    made = plan(build(case.description), partitions=case.partitions)
    outputs: Outputs = {}
    for query in queries(made):
        offsets: Counter[tuple[str, int]] = Counter()
        for number, ((stream, partition), records) in enumerate(pieces, 1):
            for record in records if stream in query.sources else ():
                at = offsets[stream, partition]
                query.batch([RecordBatch(stream, partition, range(at, at + 1), [record])])
                offsets[stream, partition] += 1
            if number in ends:
                query.batch([], end=True)
                query.restart()
        query.batch([], end=True)
        for stream, messages in query.written.items():
            outputs.setdefault(stream, []).extend(messages)
    return outputs


@with_remote_rows
def from_frames(case: Case, times: Times, batch_records: int = 7, tasks: int = 1) -> Outputs:
    """A case whose streams are streaming DataFrames: the messages come by time, so many in a batch, and those of a
    batch from so many tasks, in no order, as one producer. Tables come in the first batch."""
    made = plan(build(case.description), partitions=dict.fromkeys(case.partitions, 1))
    outputs: Outputs = {}
    for query in queries(made, frames="streaming"):
        found = [(name, record) for name in query.sources for part in case.inputs[name] for record in part]
        first = [one for one in found if one[0] in case.first]
        later = sorted((one for one in found if one[0] not in case.first), key=lambda one: times(*one))
        parts = [later[start : start + batch_records] for start in range(0, len(later), batch_records)] or [[]]
        parts[0] += first
        for part in parts:
            query.batch([batch for task in range(tasks) for batch in _of_one_task(part[task::tasks][::-1])])
        query.batch([], end=True)
        for stream, messages in query.written.items():
            outputs.setdefault(stream, []).extend(messages)
    return outputs


def _of_one_task(found: Sequence[tuple[str, Record]]) -> Iterator[RecordBatch]:
    """What a task reads of a batch, by stream."""
    for name in dict.fromkeys(name for name, _ in found):
        records = [record for of, record in found if of == name]
        yield RecordBatch(name, 0, range(len(records)), records)


@with_remote_rows
def in_a_batch_job(case: Case, tasks: int = 1, step: int = 3) -> Outputs:
    """A case as a batch job: the messages of each stream come from so many tasks, in no order, as one producer."""
    made = plan(build(case.description), partitions=dict.fromkeys(case.partitions, 1))
    outputs: Outputs = {}
    for query in queries(made, frames="bounded"):
        timed = timed_batch(query.shipped)
        rows: list[tuple[Any, ...]] = []
        for name in query.sources:
            records = [record for part in case.inputs[name] for record in part]
            for task in range(tasks):
                part = records[task::tasks][::-1]
                batch = RecordBatch(name, 0, range(len(part)), part)
                for found in level_zero(query.shipped, name, 0, _pieces(batch), most=2):
                    rows += _rows_of(timed(found))
        times = JobTimes(0, _last_times(query, rows) if query.levels.ends_apart else {})
        for level in range(1, query.levels.count):
            rows.sort(key=lambda row: (*row[1:4], by_bytes(*row[4:6])))
            given = [pa.RecordBatch.from_arrays(_arrays(part), schema=TIMED) for part in batched(rows, 4)]
            run = batch_level(query.shipped, level, times, RowOutputs(), step)
            rows = [row for batch in run(given) for row in _rows_of(batch)]
        for *_, block in rows:
            content = decode(block)
            if isinstance(content, Messages):
                written = outputs.setdefault(content.stream, [])
                written.extend(OutputMessage(*record) for record in content.records())
            else:
                assert isinstance(content, TaskReport)
                checked_report([content.report])
    return outputs


def _rows_of(batch: pa.RecordBatch) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def _arrays(rows: Sequence[tuple[Any, ...]]) -> list[pa.Array]:
    return [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), TIMED, strict=True)]


def batched(rows: Sequence[tuple[Any, ...]], most: int) -> Iterator[Sequence[tuple[Any, ...]]]:
    """The rows in parts, as Arrow brings them."""
    return (rows[start : start + most] for start in range(0, len(rows), most))


def _last_times(query: Query, rows: Sequence[tuple[Any, ...]]) -> dict[str, StreamTime]:
    reports = [decode(block) for level, *_, block in rows if level == OUTPUT]
    report = checked_report(one.report for one in reports if isinstance(one, TaskReport))
    return last_times(query.plan, query.levels, report)


def _part(records: Sequence[Record], start: int, count: int, *, whole: bool) -> list[Record]:
    if whole:
        return list(records) if start == 0 else []
    return list(records[start : start + count])
