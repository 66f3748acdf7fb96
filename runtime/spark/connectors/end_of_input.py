"""The end of input as a streaming source of Spark's, to stand beside one that cannot tell it.

In a run to the end Spark's connector to Kafka comes to where the topics ended when the query began, and has nothing
new from then on. It does not say which batch is its last. Where one batch takes all that there is, this source tells
the end in that batch, and every window fires in it; else it looks at what Spark has planned, and once all of the input
is, it tells the end in one more. It is part of a query from its first start, for Spark takes no new source
later; a later run goes on behind the end, and tells another.

The offsets that it waits for are asked for before the query begins, so they lie at or before those where the connector
stops. What comes in between is read with the batch that ends the input, if not before.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, SupportsTriggerAvailableNow

from ...clock import wall_clock
from ..lowering.packaging import ShippedPlan
from ..query.checkpoint_log import PLANNED, last_end_offsets
from ..query.connection import Offsets
from ..rows import SPARK_SCHEMA
from ..worker.control_rows import SourceClock, control_partitions, control_rows
from .kafka_format import parse_offsets


class EndOptions(msgspec.Struct, frozen=True):
    """What the source is told: where Spark notes its batches, the offsets that the input begins and ends at, and whom
    to tell. Without `ends` the input has none. `at_once` says that the next batch takes all that there is, `clocked`
    that time is to be told."""

    checkpoint: str
    starts: Offsets
    ends: Offsets | None
    at_once: bool
    shipped: ShippedPlan
    clocked: bool = False


def left(checkpoint: Path, starts: Offsets, ends: Offsets) -> int:
    """How many offsets lie between what Spark has planned to read by now and the ends."""
    told = last_end_offsets(checkpoint, PLANNED)
    planned = starts if told is None else {**starts, **parse_offsets(told)}
    pairs = ((at, end) for name, found in ends.items() for at, end in zip(planned[name], found, strict=True))
    return sum(max(0, end - at) for at, end in pairs)


class EndDataSource(DataSource):
    """Spark's name for the end of input."""

    @classmethod
    def name(cls) -> str:
        return "fluvial_end"

    def schema(self) -> str:
        return SPARK_SCHEMA

    def streamReader(self, schema: Any) -> "EndStreamReader":
        return EndStreamReader(msgspec.json.decode(self.options["told"], type=EndOptions))


class EndStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Its offsets count how many times the input has ended, and hold what was told of time: see `SourceClock`."""

    def __init__(self, told: EndOptions) -> None:
        self._told = told
        self._last: int | None = None
        self._left: int | None = None
        self._began = wall_clock()

    def initialOffset(self) -> dict[str, Any]:
        return _plain(0, SourceClock())

    def prepareForTriggerAvailableNow(self) -> None:
        """The end is known already."""

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        told: int = start["ends"]
        if self._last is None:
            self._last = told + 1
        before, self._left = self._left, self._still_left()
        count = self._last if self._left == 0 else told
        # To the end no batch is made of time alone: it would never come there.
        clocked = self._told.clocked and (self._told.ends is None or self._left != before or count != told)
        clock = _clock(start)
        return _plain(count, clock.advanced(self._began) if clocked else clock)

    def _still_left(self) -> int | None:
        """How many offsets are left to be planned besides this batch's, None where there is no end."""
        told = self._told
        if told.ends is None or told.at_once:
            return 0 if told.at_once else None
        return left(Path(told.checkpoint), told.starts, told.ends)

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        return control_partitions((start["ends"], end["ends"]), (_clock(start), _clock(end)))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        told = control_rows(partition, self._told.shipped)
        if told is not None:
            yield told


def _plain(ends: int, clock: SourceClock) -> dict[str, Any]:
    return {"ends": ends, "time": clock.time, "since": clock.since}


def _clock(offsets: dict[str, Any]) -> SourceClock:
    # Offsets of older versions have less.
    return msgspec.convert(offsets, SourceClock)
