"""Rows: the one shape in which everything travels through a Spark query.

A row carries a block, addressed to a level (see `levels`) and a bucket there: many messages of one producer, or a word
of control. What Spark does for a row costs more than what a pipeline does with a message, so messages travel together.
Rows for later levels pass a level untouched.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa

from ...dsl.message import Headers, Record
from .counts import Tally

OUTPUT = 1000
"""The level of rows that leave the query."""

NAMES = ("level", "bucket", "block")

SPARK_SCHEMA = "level int, bucket int, block binary"

ARROW_SCHEMA = pa.schema([("level", pa.int32()), ("bucket", pa.int32()), ("block", pa.binary())])

Row = tuple[int, int, bytes]
"""In the order of NAMES."""

BLOCK_BYTES = 1 << 20
"""A block larger than this is divided, if it has more than one message."""

ARROW_BYTES = 64 << 20
"""Most bytes of rows that Spark hands to Python at once."""

ARROW_RECORDS = 10_000
"""Most rows of those. Spark's sources take no session that sets no limit."""


class Messages(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=0):
    """Messages of one producer in its order, by columns. `positions` tell their order among all of that producer's;
    those of a source are its offsets. `headers` is None where no message has any."""

    stream: str
    producer: int
    positions: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    times: Sequence[int]
    headers: Sequence[Headers] | None

    def records(self) -> list[Record]:
        """The messages as records."""
        return list(zip(self.keys, self.values, self.times, self.headers or [()] * len(self.keys), strict=True))

    def taken(self, which: slice | Sequence[int]) -> "Messages":
        """Some of the messages, by their indices."""
        pick: Callable[[Any], Any] = itemgetter(which) if isinstance(which, slice) else _picker(which)
        headers = None if self.headers is None else pick(self.headers)
        positions, keys, values, times = map(pick, (self.positions, self.keys, self.values, self.times))
        return Messages(self.stream, self.producer, positions, keys, values, times, headers)


def _picker(which: Sequence[int]) -> Callable[[Any], Any]:
    if len(which) != 1:
        return itemgetter(*which)
    only = which[0]
    return lambda column: column[only : only + 1]


def messages_of(stream: str, producer: int, positions: Sequence[int], records: Sequence[Record]) -> Messages:
    """Records as messages of one producer; there is at least one."""
    keys, values, times, headers = zip(*records, strict=True)
    return Messages(stream, producer, list(positions), keys, values, times, headers if any(headers) else None)


class Head(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=0):
    """What `Messages` begin with, to be read without the rest."""

    stream: str
    producer: int
    positions: list[int]


class Watermark(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """How far a producer of a stream has come, in ms since epoch, and whether nothing comes to it for now."""

    stream: str
    producer: int
    time: int
    idle: bool = False


class EndOfInput(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """The input has ended."""


class Counts(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """What was counted, on its way to the report."""

    tally: Tally


class ProcessingTime(msgspec.Struct, array_like=True, frozen=True, tag=4):
    """It is this time by the clock, and silence counts from `since` at the earliest; both in ms since epoch."""

    time: int
    since: int = 0


Block = Messages | Watermark | EndOfInput | Counts | ProcessingTime

encode = msgspec.msgpack.Encoder().encode
decode = msgspec.msgpack.Decoder(Block).decode
decode_messages = msgspec.msgpack.Decoder(Messages).decode
decode_head = msgspec.msgpack.Decoder(Head | Watermark | EndOfInput | Counts | ProcessingTime).decode


def message_blocks(found: Messages) -> Iterator[bytes]:
    """Messages as blocks of a fitting size."""
    block, count = encode(found), len(found.positions)
    if len(block) <= BLOCK_BYTES or count == 1:
        yield block
        return
    for part in (slice(count // 2), slice(count // 2, None)):
        yield from message_blocks(found.taken(part))


def by_bucket(level: int, buckets: int, found: Messages) -> Iterator[Row]:
    """Messages as rows for the buckets of their keys; messages without key share the first."""
    parts: list[list[int]] = [[] for _ in range(buckets)]
    for index, key in enumerate(found.keys):
        parts[0 if key is None else crc32(key) % buckets].append(index)
    for bucket, part in enumerate(parts):
        if part:
            for block in message_blocks(found.taken(part)):
                yield level, bucket, block


def arrow_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """Rows as an Arrow batch."""
    columns = zip(*rows, strict=True) if rows else [()] * len(NAMES)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def blocks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Block]:
    """The blocks of Arrow batches."""
    for batch in batches:
        for block in batch.column("block"):
            yield decode(block.as_buffer())
