"""The embedded log as a streaming source of Spark's: partitions are read in parallel, and whoever reads one brings its
messages through level 0 at once.

Offsets are by stream and partition. A run that goes to the end reads up to the offsets it was started with, and says
so in its last batch, if it is told to: in that batch every window fires. A later run on the same checkpoint goes on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ...clock import wall_clock
from ...systems.errors import outside
from ...systems.log.reader import LogReader
from ..lowering.packaging import ShippedPlan
from ..rows import SPARK_SCHEMA, arrow_batch
from ..worker.control_rows import SourceClock, control_partitions, control_rows
from ..worker.source_level import level_zero


class LogOptions(msgspec.Struct, frozen=True):
    """What a source is told: where the log is, which offsets to begin at and where to stop, by stream, whether the
    input ends there, how many records of a partition one batch may have, and what to do with them. `first` are the
    streams that come before the others, with the ends up to which they do. `clocked` says that time is to be told."""

    directory: str
    starts: dict[str, list[int]]
    ends: dict[str, list[int]] | None
    closing: bool
    batch_records: int
    shipped: ShippedPlan
    first: dict[str, list[int]] = {}
    clocked: bool = False


class LogOffsets(msgspec.Struct, frozen=True):
    """How far a query has come: offsets by stream and partition, how many times the input has ended, and what was told
    of time: see `SourceClock`."""

    streams: dict[str, list[int]]
    ends: int = 0
    time: int = 0
    since: int = 0

    @property
    def clock(self) -> SourceClock:
        return SourceClock(self.time, self.since)


@dataclass
class LogRange(InputPartition):
    """Offsets of one partition."""

    stream: str
    partition: int
    start: int
    end: int


class LogDataSource(DataSource):
    """Spark's name for the log."""

    @classmethod
    def name(cls) -> str:
        return "fluvial_log"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: Any) -> "LogStreamReader":
        return LogStreamReader(msgspec.json.decode(self.options["told"], type=LogOptions))


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the streams it is told, from Spark's offsets to Spark's offsets."""

    def __init__(self, told: LogOptions) -> None:
        self._told = told
        self._reader = LogReader(told.directory)
        self._target = told.ends
        self._last_end: int | None = None
        self._began = wall_clock()

    def initialOffset(self) -> dict[str, Any]:
        return _plain(LogOffsets(self._told.starts))

    def prepareForTriggerAvailableNow(self) -> None:
        if self._target is None:
            self._target = self._ends()

    def _ends(self) -> dict[str, list[int]]:
        return {stream: self._reader.ends(stream) for stream in self._told.starts}

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._told.batch_records)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        begun = _offsets(start)
        target = self._target or self._ends()
        most = self._told.batch_records
        self._check(begun, target)
        first = {name: (self._told.ends or self._told.first)[name] for name in self._told.first}
        leading = {name: ends for name, ends in first.items() if _behind(begun.streams[name], ends)}
        streams = {
            **begun.streams,
            **{name: _step(begun.streams[name], ends, most) for name, ends in (leading or target).items()},
        }
        if self._last_end is None:
            self._last_end = begun.ends + self._told.closing
        reached = all(at >= end for name, ends in target.items() for at, end in zip(streams[name], ends, strict=True))
        count = self._last_end if reached else begun.ends
        # To the end no batch is made of time alone: it would never come there.
        clocked = self._told.clocked and (self._told.ends is None or (streams, count) != (begun.streams, begun.ends))
        # Those that wait for the leading streams are not idle.
        since = wall_clock() if leading else self._began
        clock = begun.clock.advanced(since) if clocked else begun.clock
        return _plain(LogOffsets(streams, count, clock.time, clock.since))

    def _check(self, begun: LogOffsets, target: dict[str, list[int]]) -> None:
        for stream, ends in target.items():
            for number, (at, end) in enumerate(zip(begun.streams[stream], ends, strict=True)):
                if at > end:
                    raise outside(stream, number, at, 0, end, f"log:{self._told.directory}")

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begun, reached = _offsets(start), _offsets(end)
        found: list[InputPartition] = [
            LogRange(stream, number, first, last)
            for stream, ends in reached.streams.items()
            for number, (first, last) in enumerate(zip(begun.streams[stream], ends, strict=True))
            if first < last
        ]
        return [*found, *control_partitions((begun.ends, reached.ends), (begun.clock, reached.clock))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        shipped = self._told.shipped
        told = control_rows(partition, shipped)
        if told is not None:
            yield told
            return
        assert isinstance(partition, LogRange)
        where = partition.stream, partition.partition
        batches = self._reader.read(*where, partition.start, partition.end)
        yield from map(arrow_batch, level_zero(shipped, *where, batches))


def _behind(at: list[int], ends: list[int]) -> bool:
    return any(offset < end for offset, end in zip(at, ends, strict=True))


def _step(start: list[int], ends: list[int], most: int) -> list[int]:
    return [min(first + most, last) for first, last in zip(start, ends, strict=True)]


def _offsets(found: dict[str, Any]) -> LogOffsets:
    return msgspec.convert(found, LogOffsets)


def _plain(offsets: LogOffsets) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(offsets)
    return found
