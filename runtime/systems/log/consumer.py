"""The consumer of a log: follows partitions as they grow."""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from ..contract import RecordBatch, StreamPartition
from ..errors import offset_outside
from .index import extents_of
from .lazy_journal import LazyJournal
from .partition_reader import PartitionReader, segment_files

# Doubled from one to the other: what comes often is seen at once, and a quiet stream costs 100 looks a second.
_FIRST_PAUSE = 0.0005
_LONGEST_PAUSE = 0.01


class LogConsumer:
    """Reads partitions from given offsets on, published records only. For one thread at a time."""

    def __init__(self, directory: Path, *, max_records: int, sleep: Callable[[float], None] = time.sleep) -> None:
        self._directory = directory
        self._max_records = max_records
        self._sleep = sleep
        self._journal = LazyJournal(directory)
        self._files = segment_files()
        self._readers: dict[StreamPartition, PartitionReader] = {}

    def assign(self, positions: Mapping[StreamPartition, int]) -> None:
        """Read these partitions from these offsets on, in place of those assigned before.

        Raises SystemProblem for a stream or partition that does not exist, and for an offset past the end.
        """
        index = self._journal.refresh()
        readers = {}
        for (stream, partition), offset in positions.items():
            extents = extents_of(index, self._directory, stream, partition)
            if not extents.start <= offset <= extents.end:
                raise offset_outside(stream, partition, offset, extents.start, extents.end, f"log:{self._directory}")
            readers[stream, partition] = PartitionReader(self._directory, self._files, stream, partition, offset)
        self._readers = readers

    def poll(self, timeout: float = 0.0, wanted: frozenset[StreamPartition] | None = None) -> list[RecordBatch]:
        """The next batches, at most one a partition. Waits up to `timeout` seconds if there are none.

        While it waits, it checks for new records every 0.5 to 10 ms, at the cost of one `stat`.
        """
        batches = list(self._batches(wanted))
        waited, pause = 0.0, _FIRST_PAUSE
        while not batches and waited < timeout:
            pause = min(pause, timeout - waited)
            self._sleep(pause)
            waited, pause = waited + pause, min(2 * pause, _LONGEST_PAUSE)
            batches = list(self._batches(wanted))
        return batches

    def close(self) -> None:
        """Close the files. The consumer reads no more."""
        self._files.close()
        self._journal.close()

    def _batches(self, wanted: frozenset[StreamPartition] | None) -> Iterator[RecordBatch]:
        streams = self._journal.refresh().streams
        for where, reader in self._readers.items():
            if wanted is None or where in wanted:
                extents = streams[where[0]][where[1]]
                batch = reader.read(extents, self._max_records, extents.end)
                if batch is not None:
                    yield batch
