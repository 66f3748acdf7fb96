"""The index of a log: the state after all entries of its journal. Readers see only what the index has.

Extent       a range of bytes of one segment file, with the number of its records
Extents      the published extents of one partition, by the offset of their first record
LogIndex     streams, checkpoints and published transactions
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from msgspec import Struct

from ..errors import unknown_partition, unknown_stream

# Short extents are joined up to this size. It bounds the bytes that a reader scans to find an offset.
EXTENT_BYTES = 1 << 20


class Extent(Struct, frozen=True, array_like=True, gc=False):
    """Bytes `start` to `stop` of a segment file of a partition, in whole frames, with `count` records."""

    stream: str
    partition: int
    file: str
    start: int
    stop: int
    count: int


class Created(Struct, frozen=True, array_like=True, tag="created"):
    """A journal entry: a stream was made."""

    stream: str
    partitions: int


class Trimmed(Struct, frozen=True, array_like=True, tag="trimmed"):
    """A journal entry: extents before this offset of the partition are dropped, for nobody reads them any more."""

    stream: str
    partition: int
    before: int


class Published(Struct, frozen=True, array_like=True, tag="published"):
    """A journal entry: extents got their offsets, in this order, and checkpoints were written, atomically.

    `tokens` are the published prepared transactions: (writer, number). `checkpoints` are by group and task.
    """

    extents: list[Extent]
    tokens: list[tuple[str, int]]
    checkpoints: dict[str, dict[str, bytes]]


class ExtentColumns(Struct, frozen=True, array_like=True):
    """The extents of a partition, column by column; `files` are numbers of `names`."""

    names: list[str]
    bases: list[int]
    files: list[int]
    starts: list[int]
    stops: list[int]
    end: int


class Snapshot(Struct, frozen=True, array_like=True, tag="snapshot"):
    """The first entry of a journal, and only the first: the index after all earlier entries.

    `position` is the number of the last of these entries; the first version of the format does not have it. `identity`
    is the unique name of the log; it is empty until it is first read.
    """

    version: int
    streams: dict[str, list[ExtentColumns]]
    checkpoints: dict[str, dict[str, bytes]]
    published: dict[str, list[tuple[int, int]]]
    position: int = 1
    identity: str = ""


JournalEntry = Created | Published | Trimmed | Snapshot


class LocatedExtent(NamedTuple):
    """The file and the bytes of an extent, and the offset of its first record (`base`)."""

    base: int
    file: str
    start: int
    stop: int


class Extents:
    """The published extents of one partition, by the offset of their first record."""

    def __init__(self, columns: ExtentColumns | None = None) -> None:
        known = columns or ExtentColumns([], [], [], [], [], 0)
        self.end = known.end
        self._numbers = {name: number for number, name in enumerate(known.names)}
        self._names = list(known.names)
        # Arrays take 32 bytes an extent, a fifth of what tuples would.
        self._bases = array("q", known.bases)
        self._files = array("q", known.files)
        self._starts = array("q", known.starts)
        self._stops = array("q", known.stops)

    def add(self, extent: Extent) -> None:
        """Give the next offsets to the records of an extent."""
        file = self._numbers.setdefault(extent.file, len(self._names))
        if file == len(self._names):
            self._names.append(extent.file)
        if self._goes_on(file, extent.start):
            self._stops[-1] = extent.stop
        else:
            self._bases.append(self.end)
            self._files.append(file)
            self._starts.append(extent.start)
            self._stops.append(extent.stop)
        self.end += extent.count

    def _goes_on(self, file: int, start: int) -> bool:
        """Whether bytes follow right after those of the last extent, which is short enough to be extended."""
        if not self._bases or self._files[-1] != file or self._stops[-1] != start:
            return False
        return start - self._starts[-1] < EXTENT_BYTES

    @property
    def start(self) -> int:
        """The first offset that can be read."""
        return self._bases[0] if self._bases else self.end

    def whole_before(self, offset: int) -> int:
        """How many extents end at or before an offset."""
        return len(self._bases) if offset >= self.end else max(0, bisect_right(self._bases, offset) - 1)

    def names_after(self, count: int) -> set[str]:
        """The segment files that are still used once the first `count` extents are dropped."""
        return {self._names[file] for file in self._files[count:]}

    def trim(self, before: int) -> None:
        """Drop the extents that end at or before an offset, and the files that no other extent uses."""
        count = self.whole_before(before)
        for column in (self._bases, self._files, self._starts, self._stops):
            del column[:count]
        self._names = [self._names[file] for file in sorted(set(self._files))]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        moved = {file: number for number, file in enumerate(sorted(set(self._files)))}
        self._files = array("q", [moved[file] for file in self._files])

    def find(self, offset: int) -> LocatedExtent:
        """The extent with the record of an offset, which is at least `start` and below `end`."""
        at = bisect_right(self._bases, offset) - 1
        return LocatedExtent(self._bases[at], self._names[self._files[at]], self._starts[at], self._stops[at])

    @property
    def names(self) -> list[str]:
        """The segment files that hold published records."""
        return self._names

    def columns(self) -> ExtentColumns:
        """A copy of the extents as columns, as the index is stored."""
        return ExtentColumns(
            self._names, list(self._bases), list(self._files), list(self._starts), list(self._stops), self.end
        )


class LogIndex:
    """The state after the entries of a journal, applied in order."""

    def __init__(self) -> None:
        self.streams: dict[str, list[Extents]] = {}
        self.checkpoints: dict[str, dict[str, bytes]] = {}
        self.identity = ""
        self._published: dict[str, list[tuple[int, int]]] = {}

    def apply(self, entry: JournalEntry) -> None:
        """Apply one entry. A snapshot replaces the whole state."""
        if isinstance(entry, Published):
            for extent in entry.extents:
                self.streams[extent.stream][extent.partition].add(extent)
            for writer, number in entry.tokens:
                self._published[writer] = _with_number(self._published.get(writer, []), number)
            for group, tasks in entry.checkpoints.items():
                self.checkpoints.setdefault(group, {}).update(tasks)
        elif isinstance(entry, Trimmed):
            self.streams[entry.stream][entry.partition].trim(entry.before)
        elif isinstance(entry, Created):
            self.streams[entry.stream] = [Extents() for _ in range(entry.partitions)]
        else:
            self.streams = {name: [Extents(one) for one in columns] for name, columns in entry.streams.items()}
            self.checkpoints = {group: dict(tasks) for group, tasks in entry.checkpoints.items()}
            self._published = dict(entry.published)
            self.identity = entry.identity

    def has_published(self, writer: str, number: int) -> bool:
        """Whether a prepared transaction is visible."""
        return any(first <= number <= last for first, last in self._published.get(writer, ()))

    def snapshot(self, version: int, position: int = 1) -> Snapshot:
        """A snapshot of all entries applied so far; `position` is the number of the last."""
        streams = {name: [one.columns() for one in partitions] for name, partitions in self.streams.items()}
        return Snapshot(version, streams, self.checkpoints, self._published, position, self.identity)


def partitions_of(index: LogIndex, directory: Path, stream: str) -> list[Extents]:
    """The partitions of a stream. Raises SystemProblem where the stream does not exist."""
    partitions = index.streams.get(stream)
    if partitions is None:
        raise unknown_stream(stream, index.streams, f"log:{directory}")
    return partitions


def extents_of(index: LogIndex, directory: Path, stream: str, partition: int) -> Extents:
    """The extents of a partition. Raises SystemProblem where the stream or partition does not exist."""
    partitions = partitions_of(index, directory, stream)
    if not 0 <= partition < len(partitions):
        raise unknown_partition(stream, partition, len(partitions), f"log:{directory}")
    return partitions[partition]


def _with_number(ranges: Iterable[tuple[int, int]], number: int) -> list[tuple[int, int]]:
    """Ranges (first, last) with one more number. Adjacent ranges are joined, so that numbers in order need one range.

    >>> _with_number([(1, 3), (5, 6)], 4)
    [(1, 6)]
    """
    joined: list[tuple[int, int]] = []
    for first, last in sorted([*ranges, (number, number)]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(last, joined[-1][1]))
        else:
            joined.append((first, last))
    return joined
