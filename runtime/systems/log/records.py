"""Records as the payload of a frame: a MessagePack array of (key, value, timestamp, headers)."""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

import msgspec

from ....dsl.message import Record

# A frame is read and decoded as a whole, also for its last record: larger ones would waste more at each start.
FRAME_BYTES = 128 << 10
# Small records fill no frame in bytes, and to find one of them the frame is decoded as a whole.
FRAME_RECORDS = 2_000
# Half of a frame: of records that turn out to be too large, no more are encoded in vain.
_CHUNK_RECORDS = 1_000

_ARRAY = Struct(">BI")
_encode = msgspec.msgpack.Encoder().encode

decode = msgspec.msgpack.Decoder(list[Record]).decode
"""The records of a payload; raises msgspec.DecodeError."""


class Chunk(NamedTuple):
    """Encoded records, without the array header of MessagePack."""

    records: int
    data: memoryview


def chunks(records: Sequence[Record]) -> Iterator[Chunk]:
    """Encode records in order, in chunks that fit a frame; a record that alone is larger than a frame has its own."""
    for start in range(0, len(records), _CHUNK_RECORDS):
        yield from _halved(list(records[start : start + _CHUNK_RECORDS]))


def _halved(records: list[Record]) -> Iterator[Chunk]:
    data = _encode(records)
    if len(data) > FRAME_BYTES and len(records) > 1:
        half = len(records) // 2
        yield from _halved(records[:half])
        yield from _halved(records[half:])
    else:
        yield Chunk(len(records), memoryview(data)[_head_bytes(len(records)) :])


def array_head(count: int) -> bytes:
    """What goes before the data of chunks to make one array of them.

    >>> _, data = next(chunks([(None, b"a", 0, ())]))
    >>> decode(array_head(2) + bytes(data) * 2)
    [(None, b'a', 0, ()), (None, b'a', 0, ())]
    """
    return _ARRAY.pack(0xDD, count)


def _head_bytes(count: int) -> int:
    """The length of the head that MessagePack gives an array of `count` entries."""
    return 1 if count < 16 else 3 if count < 65_536 else 5
