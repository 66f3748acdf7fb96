"""Reads one partition in order: finds the extent of an offset, then reads frame by frame."""

import os
from pathlib import Path

import msgspec

from ....dsl.errors import SystemProblem
from ....dsl.message import Record
from ..contract import RecordBatch
from ..errors import offset_outside
from . import frames
from .disk import OpenFiles, explained, read_all
from .errors import missing_records
from .index import Extents, LocatedExtent
from .records import decode

# Two of the largest frames of small records: at least one of them is whole, wherever the chunk begins.
CHUNK_BYTES = 256 << 10
# A batch ends early here: large records do not fill the memory, and small ones are still in the cache when used.
BATCH_BYTES = 256 << 10


def segment_files() -> OpenFiles:
    """Files opened for reading, one set for all partitions of a reader: at most 100 stay open at once."""
    return OpenFiles(os.O_RDONLY)


class PartitionReader:
    """The records of a partition from an offset on; `offset` is that of the next one."""

    def __init__(self, directory: Path, files: OpenFiles, stream: str, partition: int, offset: int) -> None:
        self._directory = directory / "streams" / stream / str(partition)
        self._files = files
        self._stream = stream
        self._partition = partition
        self.offset = offset
        self._start = 0
        self._ahead: list[Record] = []
        # The frame to read next: the extent it lies in, its first offset, its first byte.
        self._base = -1
        self._frame_offset = 0
        self._frame_start = 0
        self._chunk = b""
        self._chunk_file = ""
        self._chunk_start = 0

    def read(self, extents: Extents, limit: int, end: int) -> RecordBatch | None:
        """Up to `limit` records below `end`; None where there are none. Raises SystemProblem for damaged bytes."""
        if extents.start != self._start:
            self._start = extents.start
            self._files.close_removed()
        first = self.offset
        if first >= end:
            return None
        if first < extents.start:
            where = f"log:{self._directory.parents[2]}"
            raise offset_outside(self._stream, self._partition, first, extents.start, extents.end, where)
        limit = min(limit, end - first)
        records, self._ahead = self._ahead, []
        size = 0
        while len(records) < limit and size < BATCH_BYTES:
            before = self._frame_start
            more = self._next(extents, first + len(records))
            size += self._frame_start - before
            if records:
                records.extend(more)
            else:
                records = more
        if len(records) > limit:
            self._ahead = records[limit:]
            del records[limit:]
        self.offset = first + len(records)
        if self.offset == end:
            # A reader that has caught up may wait for long, and there may be many.
            self._chunk = b""
        return RecordBatch(self._stream, self._partition, range(first, self.offset), records)

    def _next(self, extents: Extents, offset: int) -> list[Record]:
        """The records from `offset` to the end of its frame."""
        extent = extents.find(offset)
        if extent.base != self._base:
            self._base, self._frame_offset, self._frame_start = extent.base, extent.base, extent.start
        while True:
            start, at = self._frame_offset, self._frame_start
            frame = self._frame(extent, at)
            self._frame_offset += frame.records
            self._frame_start = at + frames.HEADER_BYTES + len(frame.payload)
            if offset < self._frame_offset:
                records = self._decoded(frame, extent, at)
                return records[offset - start :] if offset > start else records

    def _frame(self, extent: LocatedExtent, at: int) -> frames.Frame:
        """The frame at a byte of a file, from the chunk that was read last if it is there whole."""
        try:
            frame = None
            if self._chunk_file == extent.file and 0 <= at - self._chunk_start < len(self._chunk):
                frame = frames.take(self._chunk, at - self._chunk_start)
            if frame is None:
                frame = frames.take(self._load(extent, at, CHUNK_BYTES), 0)
            if frame is None:
                # A single record may be larger than any chunk: its frame has all that is left of the extent at most.
                frame = frames.take(self._load(extent, at, extent.stop - at), 0)
        except frames.DamagedFrame as damage:
            raise self._damaged(extent, at) from damage
        if frame is None:
            raise self._damaged(extent, at)
        return frame

    def _load(self, extent: LocatedExtent, at: int, size: int) -> bytes:
        path = self._directory / extent.file
        try:
            with explained("read", path):
                self._chunk = read_all(self._files.number(path), min(size, extent.stop - at), at)
        except SystemProblem as problem:
            if not isinstance(problem.__cause__, FileNotFoundError):
                raise
            raise self._lost(f"{path} is gone") from problem.__cause__
        self._chunk_file, self._chunk_start = extent.file, at
        return self._chunk

    def _decoded(self, frame: frames.Frame, extent: LocatedExtent, at: int) -> list[Record]:
        try:
            return decode(frame.payload)
        except msgspec.DecodeError as error:
            raise self._damaged(extent, at) from error

    def _damaged(self, extent: LocatedExtent, at: int) -> SystemProblem:
        return self._lost(f"{self._directory / extent.file} is damaged at byte {at}")

    def _lost(self, wrong: str) -> SystemProblem:
        where = f"stream {self._stream!r}, partition {self._partition}, from offset {self._frame_offset} on"
        return missing_records(wrong, where)
