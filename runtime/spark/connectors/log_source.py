"""The embedded log as a streaming source of Spark: tasks read partitions in parallel, and process them at level 0.

Its offsets are by stream and partition. A run to the end reads up to the ends in its options. If the query keeps state,
the source reports the end of input in the last batch, and every window fires there. A later run on the same checkpoint
continues.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ...process.clock import wall_clock
from ...systems.errors import offset_outside
from ...systems.log.reader import LogReader
from ..lowering.shipped_plan import ShippedPlan
from ..rows import SPARK_SCHEMA, arrow_batch
from ..worker.control_rows import SourceClock, control_partitions, control_rows


class LogOptions(msgspec.Struct, frozen=True):
    """The options of the source: the log's directory, the offsets by stream to start and stop at, the most records of a
    partition in one batch, and the plan whose level 0 processes them.

    `closing` says that the source reports the end of input at `ends`. The streams in `first` are read before the
    others, up to these offsets. `clocked` says that the source reports the processing time. A run that `catches_up`
    reports it once at least, for what has come due since the run before.
    """

    directory: str
    starts: dict[str, list[int]]
    ends: dict[str, list[int]] | None
    closing: bool
    batch_records: int
    shipped: ShippedPlan
    first: dict[str, list[int]] = {}
    clocked: bool = False
    catches_up: bool = False


class LogOffsets(msgspec.Struct, frozen=True):
    """The source's offsets in Spark's offset log: offsets by stream and partition, the number of ends of input, and the
    processing time that was reported (see `SourceClock`)."""

    streams: dict[str, list[int]]
    ends: int = 0
    time: int = 0
    since: int = 0

    @property
    def clock(self) -> SourceClock:
        """The processing time that was reported."""
        return SourceClock(self.time, self.since)


@dataclass
class LogRange(InputPartition):
    """A range of offsets of one partition, which a task of Spark reads."""

    stream: str
    partition: int
    start: int
    end: int


class LogDataSource(DataSource):
    """The source of a log's records, in the form in which a session of Spark registers sources."""

    @classmethod
    def name(cls) -> str:
        """The name by which Spark knows the source."""
        return "fluvial_log"

    def schema(self) -> str:
        """The columns of a row, as Spark writes a schema."""
        return SPARK_SCHEMA

    def streamReader(self, schema: Any) -> "LogStreamReader":
        """The reader of one query, with the options that the query has given."""
        return LogStreamReader(msgspec.json.decode(self.options["options"], type=LogOptions))


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the offsets of each batch, and reads the ranges that Spark gives to tasks."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._reader = LogReader(options.directory)
        self._target = options.ends
        self._last_end: int | None = None
        # For a run that catches up, the time in which none ran counts as silence too.
        self._silent_from = 0 if options.catches_up else wall_clock()
        self._timed = False

    def initialOffset(self) -> dict[str, Any]:
        """The offsets before the first batch: those at which the sources start."""
        return _plain(LogOffsets(self._options.starts))

    def prepareForTriggerAvailableNow(self) -> None:
        """Fix the ends up to which a run to the end reads."""
        if self._target is None:
            self._target = self._ends()

    def _ends(self) -> dict[str, list[int]]:
        return {stream: self._reader.ends(stream) for stream in self._options.starts}

    def getDefaultReadLimit(self) -> ReadLimit:
        """The number of records in a batch, which `latestOffset` applies itself."""
        return ReadMaxRows(self._options.batch_records)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """The offsets up to which the next batch reads: bootstrap streams first, and a limited number of records.
        Raises SystemProblem for a partition that is shorter than what was read of it."""
        begun = _offsets(start)
        target = self._target or self._ends()
        most = self._options.batch_records
        self._check(begun, target)
        first = {name: (self._options.ends or self._options.first)[name] for name in self._options.first}
        leading = {name: ends for name, ends in first.items() if _behind(begun.streams[name], ends)}
        streams = {
            **begun.streams,
            **{name: _step(begun.streams[name], ends, most) for name, ends in (leading or target).items()},
        }
        if self._last_end is None:
            self._last_end = begun.ends + self._options.closing
        reached = all(at >= end for name, ends in target.items() for at, end in zip(streams[name], ends, strict=True))
        count = self._last_end if reached else begun.ends
        changed = (streams, count) != (begun.streams, begun.ends)
        clock = self._advanced(begun.clock, changed=changed, leading=bool(leading))
        return _plain(LogOffsets(streams, count, clock.time, clock.since))

    def _advanced(self, clock: SourceClock, *, changed: bool, leading: bool) -> SourceClock:
        """The clock as the next batch reports it. In a run to the end the passing of time alone makes no batch, or else
        such a run would never end."""
        options = self._options
        first, self._timed = options.catches_up and not self._timed, True
        if not (options.clocked and (options.ends is None or changed or first)):
            return clock
        # While other streams wait for the leading ones, they do not count as silent.
        return clock.advanced(wall_clock() if leading else self._silent_from)

    def _check(self, begun: LogOffsets, target: dict[str, list[int]]) -> None:
        for stream, ends in target.items():
            for number, (at, end) in enumerate(zip(begun.streams[stream], ends, strict=True)):
                if at > end:
                    raise offset_outside(stream, number, at, 0, end, f"log:{self._options.directory}")

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        """The ranges of a batch, one for each partition that has records, and its control partitions."""
        begun, reached = _offsets(start), _offsets(end)
        ranges: list[InputPartition] = [
            LogRange(stream, number, first, last)
            for stream, ends in reached.streams.items()
            for number, (first, last) in enumerate(zip(begun.streams[stream], ends, strict=True))
            if first < last
        ]
        return [*ranges, *control_partitions((begun.ends, reached.ends), (begun.clock, reached.clock))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, or of a control partition."""
        from ..worker.source_level import level_zero  # noqa: PLC0415 - who only plans batches loads no kernel

        shipped = self._options.shipped
        rows = control_rows(partition, shipped)
        if rows is not None:
            yield rows
            return
        assert isinstance(partition, LogRange)
        where = partition.stream, partition.partition
        batches = self._reader.read(*where, partition.start, partition.end)
        yield from map(arrow_batch, level_zero(shipped, *where, batches))


def _behind(at: list[int], ends: list[int]) -> bool:
    return any(offset < end for offset, end in zip(at, ends, strict=True))


def _step(start: list[int], ends: list[int], most: int) -> list[int]:
    return [min(first + most, last) for first, last in zip(start, ends, strict=True)]


def _offsets(plain: dict[str, Any]) -> LogOffsets:
    return msgspec.convert(plain, LogOffsets)


def _plain(offsets: LogOffsets) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(offsets)
    return plain
