"""From the columns of Spark's connector to Kafka to records, and through level 0 to rows.

The connector gives a task the messages of one partition, by offset. The same task processes them at level 0.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, repeat
from operator import attrgetter

import msgspec
import pyarrow as pa
from msgspec import Struct

from ....dsl.message import Record
from ...systems.contract import RecordBatch
from ...systems.kafka.records import record_of
from ..lowering.shipped_plan import ShippedPlan
from ..rows import arrow_batch
from ..worker.error_texts import failures_as_rows
from ..worker.outputs import Outputs
from ..worker.source_level import level_zero

_COLUMNS = (
    "key",
    "value",
    "offset",
    "unix_millis(timestamp) AS time",
    "if(headers IS NULL, NULL, to_json(headers)) AS headers",
)
"""The columns as SQL, in the types that pass to Python fastest. A timestamp column would take several times as long as
all others together. So would a list of headers, even an empty one: after each row Spark walks through all lists of the
batch, to see whether the batch is full. The check for NULL is faster here than within `to_json`."""


_PARTITION_BITS = 20
"""The bits of a column that has the number of a partition, and above it the index of its stream."""


def columns(streams: Sequence[str]) -> list[str]:
    """The SQL expressions that select from the connector's columns. The column `partition` has the index of the
    message's stream in `streams` besides: each column of its own would cost time for each message."""
    if len(streams) == 1:
        return [*_COLUMNS, "partition"]
    cases = " ".join(f"WHEN '{stream}' THEN {index << _PARTITION_BITS}" for index, stream in enumerate(streams))
    return [*_COLUMNS, f"CASE topic {cases} END + partition AS partition"]


class _Header(Struct, frozen=True, gc=False):
    """A header as Spark's `to_json` writes it: bytes as base64, without a value that is null."""

    key: str
    value: bytes | None = None


_headers = msgspec.json.Decoder(list[_Header]).decode


def through_level_zero(
    shipped: ShippedPlan, streams: Sequence[str], outputs: Outputs
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that processes `columns` at level 0 and returns rows."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return failures_as_rows(processed(batches), outputs)

    def processed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        records = (batch_of(batch, streams) for batch in batches if batch.num_rows)
        with outputs() as output:
            for (stream, partition), group in groupby(records, attrgetter("stream", "partition")):
                yield from map(arrow_batch, level_zero(shipped, stream, partition, group, output))

    return read


def batch_of(batch: pa.RecordBatch, streams: Sequence[str]) -> RecordBatch:
    """The records, at least one, of an Arrow batch of one partition."""
    keys, values, times = (batch.column(name).to_pylist() for name in ("key", "value", "time"))
    headers = batch.column("headers")
    records: list[Record] = (
        list(zip(keys, values, times, repeat(())))
        if headers.null_count == len(headers)
        else [_record(*fields) for fields in zip(keys, values, times, headers.to_pylist(), strict=True)]
    )
    offsets = batch.column("offset")
    first, behind = offsets[0].as_py(), offsets[-1].as_py() + 1
    positions = range(first, behind) if behind - first == len(offsets) else offsets.to_pylist()
    source_partition: int = batch.column("partition")[0].as_py()
    index, partition = divmod(source_partition, 1 << _PARTITION_BITS)
    return RecordBatch(streams[index], partition, positions, records)


def _record(key: bytes | None, value: bytes | None, time: int, headers: str | None) -> Record:
    decoded = () if headers is None else _headers(headers)
    return record_of(key, value, time, ((header.key, header.value) for header in decoded))
