"""Rows: the one format in which everything travels through a Spark query.

A row carries a block to a bucket of a level (see `levels`), whose label is in the column `bucket` (see `key_buckets`).
A block holds many messages of one producer, what a task has counted, or a control message. Spark's work for one row
costs more than a pipeline's work for one message, so many messages share a row. A level passes on the rows of later
levels unchanged.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Any
from zlib import crc32

import msgspec
import pyarrow as pa

from ...dsl.message import Headers, Record
from .batch_report import BatchReport
from .key_buckets import KeyBuckets

# Above all levels of a query, which are as many as its shuffles.
OUTPUT = 1000
"""The level of rows that leave the query."""
FRAMES = OUTPUT - 1
"""The level of rows with messages that leave the query for a DataFrame."""

NAMES = ("level", "bucket", "block")

SPARK_SCHEMA = "level int, bucket int, block binary"

ARROW_SCHEMA = pa.schema([("level", pa.int32()), ("bucket", pa.int32()), ("block", pa.binary())])

Row = tuple[int, int, bytes]
"""Level, label of the bucket, and block: the columns of NAMES."""

BLOCK_BYTES = 1 << 20
"""A block larger than this is split, if it has more than one message."""

TASK_BITS = 40
"""Where several tasks are one producer, positions have the number of the task above so many bits."""

ARROW_BYTES = 64 << 20
"""Most bytes of rows that Spark passes to Python in one Arrow batch."""

ARROW_RECORDS = 10_000
"""Most rows in one Arrow batch. Spark's Python sources refuse a session without such a limit."""


class Messages(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=0):
    """Messages of one producer, in its order, by columns. `positions` number all messages of the producer; for a source
    they are its offsets. `headers` is None if no message has headers."""

    stream: str
    producer: int
    positions: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    times: Sequence[int]
    headers: Sequence[Headers] | None

    def records(self) -> list[Record]:
        """The messages as records: (key, value, timestamp, headers)."""
        return list(zip(self.keys, self.values, self.times, self.headers or [()] * len(self.keys), strict=True))

    def select(self, indices: slice | Sequence[int]) -> "Messages":
        """A copy with these messages alone, in the order of the indices, of which there must be at least one."""
        pick: Callable[[Any], Any] = itemgetter(indices) if isinstance(indices, slice) else _picker(indices)
        headers = None if self.headers is None else pick(self.headers)
        positions, keys, values, times = map(pick, (self.positions, self.keys, self.values, self.times))
        return Messages(self.stream, self.producer, positions, keys, values, times, headers)


def _picker(indices: Sequence[int]) -> Callable[[Any], Any]:
    if len(indices) != 1:
        return itemgetter(*indices)
    only = indices[0]
    return lambda column: column[only : only + 1]


def messages_of(stream: str, producer: int, positions: Sequence[int], records: Sequence[Record]) -> Messages:
    """The records, at least one (none raises ValueError), as columns; the headers are None if no record has any."""
    keys, values, times, headers = zip(*records, strict=True)
    return Messages(stream, producer, list(positions), keys, values, times, headers if any(headers) else None)


class Head(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=0):
    """The first fields of `Messages`. A reader that needs only these leaves the rest packed."""

    stream: str
    producer: int
    positions: list[int]


class Wake(msgspec.Struct, array_like=True, frozen=True, tag=1):
    """A control row for a bucket that has something due, so that it runs without messages too."""


class EndOfInput(msgspec.Struct, array_like=True, frozen=True, tag=2):
    """A control row that says that the input has ended."""


class TaskReport(msgspec.Struct, array_like=True, frozen=True, tag=3):
    """What a task reports of a batch: its counts, and when its bucket is next due. The sinks add up those of all
    tasks."""

    report: BatchReport


Block = Messages | Wake | EndOfInput | TaskReport

encode = msgspec.msgpack.Encoder().encode
encode_report = msgspec.json.Encoder().encode
"""A report is JSON, which Spark's expressions can read. It begins with a bracket, as no other block does."""
_BRACKET = ord("[")
_decode = msgspec.msgpack.Decoder(Messages | Wake | EndOfInput).decode
_decode_report = msgspec.json.Decoder(TaskReport).decode
decode_messages = msgspec.msgpack.Decoder(Messages).decode
decode_head = msgspec.msgpack.Decoder(Head | Wake | EndOfInput).decode


def is_report(block: bytes | pa.Buffer) -> bool:
    """Whether a block is what a task has reported."""
    return memoryview(block)[0] == _BRACKET


def decode(block: bytes | pa.Buffer) -> Block:
    """A block as it was before it was encoded."""
    return _decode_report(block) if is_report(block) else _decode(block)


def message_blocks(messages: Messages) -> Iterator[bytes]:
    """The messages as blocks, split in halves until each is at most BLOCK_BYTES long."""
    return (block for _, block in positioned_blocks(messages))


def positioned_blocks(messages: Messages) -> Iterator[tuple[int, bytes]]:
    """The `message_blocks` of messages, each with the position of its first message."""
    block, count = encode(messages), len(messages.positions)
    if len(block) <= BLOCK_BYTES or count == 1:
        yield messages.positions[0], block
        return
    for half in (slice(count // 2), slice(count // 2, None)):
        yield from positioned_blocks(messages.select(half))


def by_bucket(level: int, buckets: KeyBuckets, messages: Messages) -> Iterator[Row]:
    """The messages as rows for the buckets of their keys."""
    count, indices_of = buckets.count, defaultdict[int, list[int]](list)
    for index, key in enumerate(messages.keys):
        indices_of[0 if key is None else crc32(key) % count].append(index)
    for bucket, indices in sorted(indices_of.items()):
        for block in message_blocks(messages.select(indices)):
            yield level, buckets.labels[bucket], block


def for_all(level: int, buckets: KeyBuckets, block: bytes) -> list[Row]:
    """A block as a row for every bucket of a level."""
    return [(level, label, block) for label in buckets.labels]


def arrow_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    """One batch in `ARROW_SCHEMA` with a row for each of `rows`, in their order; an empty batch for none."""
    columns = zip(*rows, strict=True) if rows else [()] * len(NAMES)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def blocks_of(batches: Iterable[pa.RecordBatch]) -> Iterator[Block]:
    """The blocks of rows in Arrow batches, decoded."""
    for batch in batches:
        for block in batch.column("block"):
            yield decode(block.as_buffer())
