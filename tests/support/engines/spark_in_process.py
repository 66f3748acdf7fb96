"""The Spark lowering without Spark: the same functions that its workers run, over batches and buckets made here.

It finds what is wrong with levels, rows, pages and watermarks in milliseconds; the real engine is judged by fewer
cases.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from pyspark.cloudpickle import cloudpickle

from engines.targets import with_remote_rows
from fluvial.dsl.message import Record
from fluvial.planner import Plan, plan
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.kernel.time.bounds import END
from fluvial.runtime.spark.batch_report import BatchReport
from fluvial.runtime.spark.batch_times import BatchTimes
from fluvial.runtime.spark.counts import Counts
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.levels import Levels
from fluvial.runtime.spark.lowering.lowering import components, has_loop, levels
from fluvial.runtime.spark.lowering.packaging import PlanBundle, pack
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.query.query_times import QueryTimes, TimesRecord
from fluvial.runtime.spark.rows import OUTPUT, Messages, Row, TaskReport, decode
from fluvial.runtime.spark.worker.control_rows import due_rows, end_rows
from fluvial.runtime.spark.worker.keyed_level import LevelTask
from fluvial.runtime.spark.worker.source_level import level_zero
from fluvial.runtime.systems.contract import RecordBatch
from generators.building import build
from generators.cases import Case, Pieces
from oracle.interpreter import OutputMessage, Outputs

BUCKETS = 3


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
                given = blocks[::-1] if self.backwards else blocks
                passed += task.process(bucket, given, self.state[(level, bucket)])
        return passed


def _kept(_: TimesRecord) -> None:
    """The record stays in memory."""


def _pieces(batch: RecordBatch) -> Iterator[RecordBatch]:
    """A reader gives what it reads in pieces, here of two messages."""
    for at in range(0, len(batch.records), 2):
        part = slice(at, at + 2)
        yield RecordBatch(batch.stream, batch.partition, batch.offsets[part], batch.records[part])


def queries(made: Plan, resets: Mapping[str, int] | None = None, buckets: int = BUCKETS) -> list[Query]:
    """The queries that the engine would start; `resets` says how often the state of operators was removed."""
    found, key_buckets = [], KeyBuckets(buckets)
    for stages in components(made):
        told = levels(made, stages, buckets)
        names = [name for stage in stages for name in stage.inputs if made.stream(name).kind == "source"]
        shipped = _packed(PlanBundle(made, told, key_buckets, Size(2, 1 << 20), resets or {}))
        found.append(Query(made, shipped, told, key_buckets, names))
    return found


def _packed(bundle: PlanBundle) -> ShippedPlan:
    """A plan whose classes are made anew when it is unpacked, as in a worker. cloudpickle would fill those of
    this process with the copies of their methods instead, and leave them so to the tests that follow."""
    shipped = replace(pack(bundle), run=f"{id(bundle.plan)}")
    cloudpickle._DYNAMIC_CLASS_TRACKER_BY_ID.clear()
    return shipped


@with_remote_rows
def lowered(case: Case, batch_records: int = 7) -> Outputs:
    """A case run to its end in batches of at most so many messages of each partition; tables come in the first."""
    made = plan(build(case.description), partitions=case.partitions)
    assert not has_loop(made)
    outputs: Outputs = {}
    for query in queries(made):
        longest = max((len(part) for name in query.sources for part in case.inputs[name]), default=0)
        for start in range(0, longest, batch_records):
            ranges = [
                RecordBatch(name, number, range(start, start + len(records)), records)
                for name in query.sources
                for number, part in enumerate(case.inputs[name])
                if (records := _part(part, start, batch_records, whole=name in case.first))
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


def _part(records: Sequence[Record], start: int, count: int, *, whole: bool) -> list[Record]:
    if whole:
        return list(records) if start == 0 else []
    return list(records[start : start + count])
