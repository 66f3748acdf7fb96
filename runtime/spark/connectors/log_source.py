"""The embedded log as a streaming source of Spark: tasks read partitions in parallel, and process them at level 0.

Its offsets are by stream and partition. A run to the end reads up to the ends in its options. If the query keeps state,
the source reports the end of input in the last batch, and every window fires there. A later run on the same checkpoint
continues.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypeVar

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from ...systems.errors import offset_outside
from ...systems.log.reader import LogReader
from ..lowering.shipped_plan import ShippedPlan
from ..query.batch_requests import RequestReader
from ..rows import SPARK_SCHEMA, arrow_batch
from ..worker.control_rows import control_partitions, control_rows

Key = TypeVar("Key")


class LogOptions(msgspec.Struct, frozen=True):
    """The options of the source: the log's directory, the offsets by stream to start and stop at, the most records of
    one batch, and the plan whose level 0 processes them.

    `closing` says that the source reports the end of input at `ends`, in the last batch with records or, if it
    `ends_apart`, in one more. The streams in `first` are read before the others, up to these offsets. By the file
    `requests` the driver asks for batches, if the query keeps state.
    """

    directory: str
    starts: dict[str, list[int]]
    ends: dict[str, list[int]] | None
    closing: bool
    batch_records: int
    shipped: ShippedPlan
    first: dict[str, list[int]] = {}
    requests: str = ""
    ends_apart: bool = False


class LogOffsets(msgspec.Struct, frozen=True):
    """The source's offsets in Spark's offset log: offsets by stream and partition, the number of ends of input, and the
    number of the driver's requests that were served."""

    streams: dict[str, list[int]]
    ends: int = 0
    requests: int = 0


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
        self._requests = RequestReader(options.requests, at_once=options.ends is not None)

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
        # Alone, as long as any of them is behind: rows of a table come before the messages that look them up.
        leading = {name: ends for name, ends in first.items() if _behind(begun.streams[name], ends)}
        streams = {
            **begun.streams,
            **_step(begun.streams, leading or target, most),
        }
        if self._last_end is None:
            self._last_end = begun.ends + self._options.closing
        last = begun.streams if self._options.ends_apart else streams
        reached = all(at >= end for name, ends in target.items() for at, end in zip(last[name], ends, strict=True))
        count = self._last_end if reached else begun.ends
        ended = self._options.closing and begun.ends == self._last_end
        # What comes due behind the end of input waits for the next run.
        return _plain(LogOffsets(streams, count, begun.requests + (not ended and self._requests.is_new())))

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
        return [*ranges, *control_partitions((begun.ends, reached.ends), (begun.requests, reached.requests))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, or of a control partition."""
        from ..worker.error_texts import failures_as_rows  # noqa: PLC0415 - who only plans batches loads no kernel
        from ..worker.outputs import RowOutputs  # noqa: PLC0415
        from ..worker.source_level import level_zero  # noqa: PLC0415

        shipped = self._options.shipped
        rows = control_rows(partition, shipped)
        if rows is not None:
            yield rows
            return
        assert isinstance(partition, LogRange)
        where = partition.stream, partition.partition
        batches = self._reader.read(*where, partition.start, partition.end)
        yield from failures_as_rows(map(arrow_batch, level_zero(shipped, *where, batches)), RowOutputs())


def _behind(at: list[int], ends: list[int]) -> bool:
    return any(offset < end for offset, end in zip(at, ends, strict=True))


def _step(begun: Mapping[str, list[int]], ends: Mapping[str, list[int]], most: int) -> dict[str, list[int]]:
    """The offsets at which a batch of so many records ends, if it takes as many of each partition that has them."""
    waiting = {(name, one): end - begun[name][one] for name, of in ends.items() for one, end in enumerate(of)}
    reached = {name: list(begun[name]) for name in ends}
    for (name, one), records in shares(waiting, most).items():
        reached[name][one] += records
    return reached


def shares(waiting: Mapping[Key, int], most: int) -> dict[Key, int]:
    """Share `most` among those that wait for so many each: no one gets more than it waits for, and what one leaves goes
    to the others.

    >>> shares({"a": 2, "b": 9, "c": 5}, 10)
    {'a': 2, 'c': 4, 'b': 4}
    """
    shared: dict[Key, int] = {}
    for number, (key, wanted) in enumerate(sorted(waiting.items(), key=itemgetter(1))):
        # Those that want least come first, so that what they leave is known when the others get their share.
        shared[key] = min(max(0, wanted), most // (len(waiting) - number))
        most -= shared[key]
    return shared


def _offsets(plain: dict[str, Any]) -> LogOffsets:
    return msgspec.convert(plain, LogOffsets)


def _plain(offsets: LogOffsets) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(offsets)
    return plain
