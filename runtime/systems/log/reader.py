"""The reader of ranges, for processes that know only the path of a log, such as workers of Spark."""

from collections.abc import Iterator
from pathlib import Path

from ..contract import RecordBatch
from ..errors import offset_outside
from .index import Extents, extents_of, partitions_of
from .journal import Journal
from .partition_reader import PartitionReader, segment_files


class LogReader:
    """Reads ranges of published records, whose offsets the caller knows.

    It opens the log at its first use. It pickles as the path of the log, so it can be sent to other processes and
    machines that see the directory. For one thread at a time.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._journal: Journal | None = None

    def __reduce__(self) -> tuple[type["LogReader"], tuple[Path]]:
        return LogReader, (self._directory,)

    def ends(self, stream: str) -> list[int]:
        """The offset that the next published record will have, by partition."""
        return [extents.end for extents in partitions_of(self._opened().refresh(), self._directory, stream)]

    def read(
        self, stream: str, partition: int, start: int, end: int, *, max_records: int = 10_000
    ) -> Iterator[RecordBatch]:
        """The records from offset `start` up to, not including, `end`, in batches of at most `max_records`.

        Raises SystemProblem at once where the range is not published, and while reading where bytes are damaged.
        """
        extents = extents_of(self._opened().refresh(), self._directory, stream, partition)
        for offset in (start, end):
            if not extents.start <= offset <= extents.end:
                raise offset_outside(stream, partition, offset, extents.start, extents.end, f"log:{self._directory}")
        reader = PartitionReader(self._directory, segment_files(), stream, partition, start)
        return _batches(reader, extents, max_records, end)

    def close(self) -> None:
        """Close the log; it is opened again when used again."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _opened(self) -> Journal:
        if self._journal is None:
            self._journal = Journal(self._directory)
        return self._journal


def _batches(reader: PartitionReader, extents: Extents, max_records: int, end: int) -> Iterator[RecordBatch]:
    while (batch := reader.read(extents, max_records, end)) is not None:
        yield batch
