"""Rows: the one shape in which everything travels through a Spark query, data and control alike.

A row is addressed to a level (see `levels`) and a bucket there; rows for later levels pass a level untouched. `kind`
says what it is: a message, a watermark, the end of input, or counts on their way to the report.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import pyarrow as pa

from ...dsl.message import Headers

DATA, WATERMARK, ENDED, COUNTS = 0, 1, 2, 3
"""Kinds of rows."""

OUTPUT = 1000
"""The level of rows that leave the query."""

NAMES = ("level", "bucket", "kind", "stream", "producer", "position", "key", "value", "timestamp", "headers")

SPARK_SCHEMA = (
    "level int, bucket int, kind int, stream string, producer int, position long, "
    "key binary, value binary, timestamp long, headers binary"
)

ARROW_SCHEMA = pa.schema(
    [
        ("level", pa.int32()),
        ("bucket", pa.int32()),
        ("kind", pa.int32()),
        ("stream", pa.string()),
        ("producer", pa.int32()),
        ("position", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", pa.binary()),
    ]
)

Row = tuple[int, int, int, str, int, int, bytes | None, bytes | None, int, bytes | None]
"""In the order of NAMES: level, bucket, kind, stream, producer, position, key, value, timestamp, headers."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[tuple[str, bytes], ...]).decode


def pack_headers(headers: Headers) -> bytes | None:
    """Headers as bytes; None for none, which costs nothing."""
    return _encode(headers) if headers else None


def unpack_headers(data: bytes | None) -> Headers:
    """Headers from bytes."""
    return _decode(data) if data else ()


def columns(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """Rows turned into columns, in the order of NAMES."""
    return list(zip(*rows, strict=True)) if rows else [() for _ in NAMES]


def arrow_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as an Arrow batch."""
    fields = zip(columns(rows), ARROW_SCHEMA, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column, field.type) for column, field in fields], schema=ARROW_SCHEMA)


def arrow_rows(batches: Iterable[pa.RecordBatch]) -> Iterable[Row]:
    """The rows of Arrow batches, by columns since that is many times faster."""
    for batch in batches:
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)
