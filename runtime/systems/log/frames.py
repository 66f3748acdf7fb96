"""Frames: runs of bytes on disk that tell whether they are whole.

A frame is a header of 16 bytes and a payload. The header holds four unsigned 32-bit little-endian numbers: the length
of the payload, how many records it holds, the crc32 of the payload, and the crc32 of the three numbers before.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple
from zlib import crc32

_NUMBERS = struct.Struct("<III")
_CHECK = struct.Struct("<I")
# Written before every frame of every log there is: another size is another format.
HEADER_BYTES = _NUMBERS.size + _CHECK.size


class Frame(NamedTuple):
    """A whole frame: its number of records, its payload, and where it stops in the data it was taken from."""

    records: int
    payload: memoryview
    stop: int


class DamagedFrame(Exception):
    """The bytes at hand are no frame; `last` says that nothing but zeros could follow them."""

    def __init__(self, at: int, *, last: bool) -> None:
        super().__init__(f"damaged frame at byte {at}")
        self.at = at
        self.last = last


def make(count: int, parts: Iterable[bytes | memoryview]) -> bytes:
    """A frame of the joined parts.

    >>> take(make(1, [b"sa", b"lt"]), 0).payload.tobytes()
    b'salt'
    """
    payload = list(parts)
    check = 0
    for part in payload:
        check = crc32(part, check)
    numbers = _NUMBERS.pack(sum(map(len, payload)), count, check)
    return b"".join([numbers, _CHECK.pack(crc32(numbers)), *payload])


def take(data: bytes, at: int) -> Frame | None:
    """The frame that starts at a byte, None where the data ends before it does; raises DamagedFrame.

    A frame cut short, by a crash in the middle of a write, is None too: the header has a check of its own, so that
    a length is never believed that was not written.
    """
    start = at + HEADER_BYTES
    if start > len(data):
        return None
    length, count, check = _NUMBERS.unpack_from(data, at)
    if crc32(data[at : at + _NUMBERS.size]) != _CHECK.unpack_from(data, at + _NUMBERS.size)[0]:
        raise DamagedFrame(at, last=not data[at:].strip(b"\0"))
    stop = start + length
    if stop > len(data):
        return None
    payload = memoryview(data)[start:stop]
    if crc32(payload) != check:
        raise DamagedFrame(at, last=stop == len(data))
    return Frame(count, payload, stop)
