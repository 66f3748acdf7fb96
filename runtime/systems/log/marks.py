"""Marks: positions of the journal, stored in other files, by which a reader detects a cut or replaced journal.

A position is the number of an entry, counted from 1, the snapshot with which the log was made. Marks lie at the start
of two kinds of file:

lock         the position of the last entry
a segment    the position of the last entry that published bytes of this segment; 0 if there is none

There is space for two marks, and a new one takes the place of the older. A mark is a frame without records, with a
position as its payload. A crash while one is written leaves the other; the entry was whole in the journal before.
"""

import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ...process.data_files import open_file
from . import frames
from .disk import explained, read_all, write_all
from .errors import damaged_mark

_POSITION = struct.Struct("<Q")
_SLOT_BYTES = frames.HEADER_BYTES + _POSITION.size
# Two, which are written in turn: a power cut in the middle of one leaves the other whole.
MARK_BYTES = 2 * _SLOT_BYTES


@lru_cache(maxsize=4)
def encoded_mark(position: int) -> bytes:
    """The bytes of one slot: a frame with its own check sum, so that a mark cut by a crash is told from a whole one."""
    return frames.make(0, [_POSITION.pack(position)])


def slot_of(data: bytes) -> int:
    """The byte at which the next mark of a file goes: 0 where none is whole, else that of the older one.

    >>> slot_of(encoded_mark(8) + encoded_mark(7)) == slot_after(0)
    True
    """
    first, second = _position(data, 0), _position(data, _SLOT_BYTES)
    return 0 if first is None or (second is not None and first < second) else _SLOT_BYTES


def slot_after(slot: int) -> int:
    """The byte at which the next mark goes, after one at `slot`."""
    return _SLOT_BYTES - slot


UNPUBLISHED = 2 * encoded_mark(0)
"""The start of a segment of which nothing is published yet."""


def decoded(data: bytes) -> int | None:
    """The position that a journal has at the least, from the start of a file; None where the file has no marks.

    Segments of the first format begin with records instead. A file that a power cut left without data has zeros.
    Raises DamagedFrame.
    """
    positions = [position for at in (0, _SLOT_BYTES) if (position := _position(data, at)) is not None]
    if positions:
        return max(positions) if len(positions) == 2 else positions[0] + 1
    if data.strip(b"\0"):
        frames.take(data, 0)
    return None


def _position(data: bytes, at: int) -> int | None:
    """The position in the mark at a byte of `data`, None where no whole mark is there."""
    mark = data[at : at + _SLOT_BYTES]
    if len(mark) < _SLOT_BYTES:
        return None
    position: int = _POSITION.unpack_from(mark, frames.HEADER_BYTES)[0]
    return position if mark == encoded_mark(position) else None


def start_of(number: int) -> bytes:
    """The bytes of an open file that may have marks."""
    return read_all(number, MARK_BYTES, 0)


def read(number: int, path: Path) -> int | None:
    """The position in the mark of an open segment, None where it has no mark; raises SystemProblem."""
    try:
        with explained("read", path):
            return decoded(start_of(number))
    except frames.DamagedFrame as damage:
        raise damaged_mark(path) from damage


def write(number: int, position: int, slot: int) -> None:
    """Write a mark into an open file, at the byte `slot`.

    It is not synced: after a power cut an older mark says less, and nothing wrong.
    """
    write_all(number, encoded_mark(position), slot)


def write_anew(number: int, position: int) -> None:
    """Write a mark in place of all that an open file has."""
    write_all(number, 2 * encoded_mark(position), 0)


def newest(directory: Path) -> tuple[int, Path]:
    """The largest position that the segments of a log have a mark of, and the file; raises SystemProblem."""
    largest = (0, directory)
    for path in segments(directory):
        position = _newest_of(path)
        if position > largest[0]:
            largest = position, path
    return largest


def _newest_of(path: Path) -> int:
    with explained("read", path):
        try:
            number = open_file(path, os.O_RDONLY)
        except FileNotFoundError:
            return 0  # its writer, or a trim, has removed it meanwhile
        try:
            return read(number, path) or 0
        finally:
            os.close(number)


def segments(directory: Path) -> Iterator[Path]:
    """The paths of all segment files, of any writer, also of those that nothing is published of."""
    for stream in _entries(directory / "streams"):
        for partition in _entries(stream):
            yield from (path for path in _entries(partition) if path.suffix == ".seg")


def _entries(folder: Path) -> list[Path]:
    with explained("read", folder):
        try:
            return [folder / name for name in sorted(os.listdir(folder))]
        except (FileNotFoundError, NotADirectoryError):
            return []
