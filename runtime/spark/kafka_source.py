"""What Spark's connector reads from Kafka, on its way through level 0.

The connector gives a task the offsets of one partition, in their order; the task brings them through level 0 at once.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby, islice, repeat
from operator import attrgetter

import pyarrow as pa

from ...dsl.message import Record
from ..systems.contract import Batch
from ..systems.kafka.records import record_of
from .rows import arrow_batch
from .shipping import Shipment
from .sources import level_zero

COLUMNS = ("key", "value", "topic", "partition", "offset", "unix_millis(timestamp) AS time", "headers")
"""What of the connector's columns goes to Python. As a timestamp, the time would take several times as long as all the
rest."""


def through_level_zero(shipment: Shipment) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: from COLUMNS to rows."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = (batch_of(batch) for batch in batches if batch.num_rows)
        for (stream, partition), part in groupby(found, attrgetter("stream", "partition")):
            yield from map(arrow_batch, level_zero(shipment, stream, partition, part))

    return read


def batch_of(found: pa.RecordBatch) -> Batch:
    """Records of one partition, of which there is at least one."""
    keys, values, offsets, times = (found.column(name).to_pylist() for name in ("key", "value", "offset", "time"))
    headers = found.column("headers")
    records: list[Record] = (
        list(zip(keys, values, times, repeat(())))
        if headers.null_count == len(headers)
        else [record_of(*record) for record in zip(keys, values, times, _headers(headers), strict=True)]
    )
    first, behind = offsets[0], offsets[-1] + 1
    positions = range(first, behind) if behind - first == len(offsets) else offsets
    return Batch(found.column("topic")[0].as_py(), found.column("partition")[0].as_py(), positions, records)


def _headers(column: pa.Array) -> Iterator[list[tuple[str, bytes | None]]]:
    """The headers of each record; those of all are converted at once."""
    flat = column.flatten()
    pairs = zip(flat.field("key").to_pylist(), flat.field("value").to_pylist(), strict=True)
    return (list(islice(pairs, length or 0)) for length in column.value_lengths().to_pylist())
