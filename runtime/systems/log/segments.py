"""The segment files of one writer. No other writer appends to them, so staged records cannot be overwritten."""

import os
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from ....dsl.errors import SystemProblem, UsageError
from ....dsl.validation import explain
from . import frames, marks
from .disk import Descriptor, OpenFiles, explained, sync_data, sync_directory, write_all
from .errors import unsynced
from .index import Extent

# A trim removes whole files, so up to so much stays that nobody reads; smaller ones take more descriptors.
SEGMENT_BYTES = 64 << 20


@dataclass(slots=True)
class Segment:
    """A file being written: `kept` is the end of the last prepared bytes, `synced` the size that survives a power cut,
    and `mark_slot` the byte at which the next mark goes."""

    path: Path
    name: str
    size: int = 0
    durable_end: int = 0
    synced: int = -1
    mark_slot: int = 0


def segment_path(directory: Path, stream: str, partition: int, file: str) -> Path:
    """`streams/STREAM/PARTITION/FILE` under the directory, whether the file exists or not."""
    return directory.joinpath("streams", stream, str(partition), file)


def writer_of(file: str) -> str:
    """The writer of a segment file.

    >>> writer_of("5b0c-12.seg")
    '5b0c'
    """
    return file.rpartition("-")[0]


class Segments:
    """Appends frames, to one open file a partition; a new file is begun where one has `segment_bytes`."""

    def __init__(self, directory: Path, writer: str, *, fsync: bool, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._directory = directory
        self._writer = writer
        self._fsync = fsync
        self._segment_bytes = segment_bytes
        self.files = OpenFiles(os.O_RDWR)
        self._current: dict[tuple[str, int], Segment] = {}
        self._numbers = count(1)
        self._unpublished: Counter[str] = Counter()
        self._failed: set[str] = set()
        self._closed = False

    def write(self, stream: str, partition: int, records: int, parts: Sequence[bytes | memoryview]) -> Extent:
        """Append a frame; return its extent. A failed write leaves no bytes that count."""
        self._check_open()
        segment = self._current.get((stream, partition))
        if segment is None or segment.size >= self._segment_bytes:
            segment = self._begin(stream, partition)
        data, start = frames.make(records, parts), segment.size or marks.MARK_BYTES
        number = self.files.number(segment.path)
        with explained("write to", segment.path):
            try:
                write_all(number, data if segment.size else marks.UNPUBLISHED + data, segment.size)
            except OSError:
                # A part of the frame would take space that others may need.
                with suppress(OSError):
                    os.ftruncate(number, segment.size)
                raise
        segment.size = start + len(data)
        self._unpublished[segment.name] += len(data)
        return Extent(stream, partition, segment.name, start, segment.size, records)

    def current(self, extent: Extent) -> Segment | None:
        """The file that an extent lies in, if this writer is writing it."""
        segment = self._current.get((extent.stream, extent.partition))
        return segment if segment is not None and segment.name == extent.file else None

    def mark(self, path: Path, own: Segment | None, position: int) -> None:
        """Mark a segment with the entry that published bytes of it."""
        number = self.files.number(path)
        slot = marks.slot_of(marks.start_of(number)) if own is None else own.mark_slot
        marks.write(number, position, slot)
        if own is not None:
            own.mark_slot = marks.slot_after(slot)

    def keep(self, extents: Iterable[Extent]) -> None:
        """Make these extents durable, and keep them when the writer closes."""
        self._check_open()
        for extent in extents:
            if extent.file in self._failed:
                raise unsynced(segment_path(self._directory, extent.stream, extent.partition, extent.file))
            segment = self._current.get((extent.stream, extent.partition))
            # A file that is not the current one was synced when the next was begun.
            if segment is not None and segment.name == extent.file:
                segment.durable_end = max(segment.durable_end, extent.stop)
                self._sync(extent.stream, extent.partition, segment)

    def published(self, extents: Iterable[Extent]) -> None:
        """Their bytes count no longer as unpublished: a file that has no other such bytes may be trimmed away."""
        for extent in extents:
            self._unpublished[extent.file] -= extent.stop - extent.start

    def unpublished(self) -> Collection[str]:
        """The files with records that are not published yet."""
        self._unpublished = +self._unpublished
        return self._unpublished.keys()

    def let_go(self, removed: Collection[str]) -> None:
        """Write no more to files that have been removed, and close them."""
        self._current = {partition: one for partition, one in self._current.items() if one.name not in removed}
        self.files.close_removed()

    def close(self) -> None:
        """Close the files, and remove the bytes after the last prepared ones."""
        for segment in self._current.values():
            # A failure costs only disk space.
            with suppress(OSError):
                if not segment.durable_end:
                    segment.path.unlink()
                elif segment.durable_end < segment.size:
                    os.truncate(segment.path, segment.durable_end)
        self._current.clear()
        self.files.close()
        self._closed = True

    def _check_open(self) -> None:
        if self._closed:
            wrong = "this producer is closed, and its staged records are dropped"
            raise UsageError(explain(wrong, "an open producer", "call producer() for another"))

    def _begin(self, stream: str, partition: int) -> Segment:
        previous = self._current.get((stream, partition))
        if previous is not None:
            self._sync(stream, partition, previous)
        # The number is the writer's, not the partition's: a file's name alone tells which file it is.
        name = f"{self._writer}-{next(self._numbers)}.seg"
        path = segment_path(self._directory, stream, partition, name)
        Descriptor(path, os.O_RDWR | os.O_CREAT | os.O_EXCL).close()
        segment = self._current[stream, partition] = Segment(path, name)
        return segment

    def _sync(self, stream: str, partition: int, segment: Segment) -> None:
        if not self._fsync or segment.synced == segment.size:
            return
        try:
            with explained("sync", segment.path):
                sync_data(self.files.number(segment.path))
            if segment.synced < 0:
                sync_directory(segment.path.parent)
        except SystemProblem:
            # The system may drop what it could not write, and the next sync would say nothing of it.
            self._failed.add(segment.name)
            del self._current[stream, partition]
            raise
        segment.synced = segment.size
