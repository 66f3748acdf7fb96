"""A transaction on the log: frames in the writer's own files, invisible until the journal has an entry about them."""

from collections.abc import Callable, Mapping, Sequence

from ....dsl.message import Record
from ..contract import StreamPartition
from ..errors import ended
from . import records as codec
from .index import EXTENT_BYTES, Extent, extents_of
from .journal import Journal
from .publication import Prepared, publish, to_token
from .segments import Segments


class LogTransaction:
    """Records that become visible together. Dropping it without `prepare` or `commit` leaves no trace to readers."""

    def __init__(self, journal: Journal, segments: Segments, writer: str, next_number: Callable[[], int]) -> None:
        self._journal = journal
        self._segments = segments
        self._writer = writer
        self._next_number = next_number
        self._stages: dict[StreamPartition, _Stage] = {}
        self._open = True

    @property
    def size(self) -> int:
        """Bytes staged so far, as the log encodes them."""
        return sum(stage.size for stage in self._stages.values())

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Stage records in order. Raises SystemProblem where the stream or its partition does not exist."""
        stage = self._stages.get((stream, partition))
        if stage is None:
            stage = self._begin(stream, partition)
        for chunk in codec.chunks(records):
            stage.add(chunk)

    def prepare(self, group: str, checkpoints: Mapping[str, bytes]) -> bytes:
        """Make what is staged durable, not yet visible; the token may be published by any process, at any time."""
        return to_token(self._finish(self._next_number(), group, checkpoints))

    def commit(self, group: str = "", checkpoints: Mapping[str, bytes] | None = None) -> None:
        """Make everything visible, and write the checkpoints by task name, at once or not at all.

        When an error is raised by the last sync of a failing disk, what was committed may be visible nevertheless.
        """
        transaction = self._finish(0, group, checkpoints or {})
        publish(self._journal, self._segments, [transaction])
        self._segments.published(transaction.extents)

    def _begin(self, stream: str, partition: int) -> "_Stage":
        if not self._open:
            raise ended()
        # Records for a partition that does not exist are refused here, long before they could be published.
        extents_of(self._journal.refresh(), self._journal.directory, stream, partition)
        stage = self._stages[stream, partition] = _Stage(self._segments, stream, partition)
        return stage

    def _finish(self, number: int, group: str, checkpoints: Mapping[str, bytes]) -> Prepared:
        if not self._open:
            raise ended()
        # Closed first: what fails from here on cannot be tried again, since some frames may be written.
        self._open = False
        extents = [extent for stage in self._stages.values() for extent in stage.finish()]
        self._stages.clear()
        # Durable before a token or an entry names them: a crash must not leave an entry without its bytes.
        self._segments.keep(extents)
        return Prepared(self._writer, number, extents, group, dict(checkpoints))


class _Stage:
    """The part of a transaction in one partition: extents on disk, and chunks that do not fill a frame yet."""

    def __init__(self, segments: Segments, stream: str, partition: int) -> None:
        self._segments = segments
        self._stream = stream
        self._partition = partition
        self._extents: list[Extent] = []
        self._chunks: list[memoryview] = []
        self._records = 0
        self._pending = 0
        self.size = 0

    def add(self, chunk: codec.Chunk) -> None:
        bytes_after, records_after = self._pending + len(chunk.data), self._records + chunk.records
        if bytes_after > codec.FRAME_BYTES or records_after > codec.FRAME_RECORDS:
            self._write()
        self._chunks.append(chunk.data)
        self._records += chunk.records
        self._pending += len(chunk.data)
        self.size += len(chunk.data)

    def finish(self) -> list[Extent]:
        """Write the remaining chunks; return all extents."""
        self._write()
        return self._extents

    def _write(self) -> None:
        if not self._records:
            return
        parts: list[bytes | memoryview] = [codec.array_head(self._records), *self._chunks]
        extent = self._segments.write(self._stream, self._partition, self._records, parts)
        self._chunks, self._records, self._pending = [], 0, 0
        if self._extents and (joined := _joined(self._extents[-1], extent)):
            # Fewer extents make entries of the journal, and the index of every reader, smaller.
            self._extents[-1] = joined
        else:
            self._extents.append(extent)


def _joined(left: Extent, right: Extent) -> Extent | None:
    """One extent of two adjacent ones, unless the first is long already."""
    if left.file != right.file or left.stop != right.start or left.stop - left.start >= EXTENT_BYTES:
        return None
    count = left.count + right.count
    return Extent(left.stream, left.partition, left.file, left.start, right.stop, count)
