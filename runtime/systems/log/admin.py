"""The admin of a log: makes and measures its streams."""

from collections.abc import Collection
from pathlib import Path

from ...process.data_files import make_folder
from ...size_limit import SizeLimit
from ..contract import StreamUse
from ..errors import check_stream, other_count
from .disk import explained, sync_directory
from .index import Created, Extents, partitions_of
from .lazy_journal import LazyJournal


class LogAdmin:
    """Makes and measures the streams of a log. `create` makes the log at need; nothing else does. For one thread at a
    time."""

    def __init__(self, directory: Path, *, fsync: bool) -> None:
        self._directory = directory
        self._fsync = fsync
        self._journal = LazyJournal(directory, fsync=fsync)

    def streams(self) -> dict[str, int]:
        """Every stream's partition count."""
        return {stream: len(partitions) for stream, partitions in self._journal.refresh().streams.items()}

    def partitions(self, stream: str) -> int | None:
        """The partition count of a stream, None where there is no such stream."""
        partitions = self._journal.refresh().streams.get(stream)
        return None if partitions is None else len(partitions)

    def create(self, stream: str, partitions: int, use: StreamUse = "messages") -> None:
        """Make a stream. Nothing happens if it exists with this count; another count raises SystemProblem.

        Raises UsageError for a name with other characters than `A-Z a-z 0-9 . _ -`, and for a count below 1.
        """
        del use  # a log retains the records of every stream until a producer trims it
        check_stream(stream, partitions)
        journal = self._journal.create()
        with journal.exclusive() as index:
            existing = index.streams.get(stream)
            if existing is None:
                # The directories come first: who sees the stream may write to it.
                self._make_directories(stream, partitions)
                journal.add(Created(stream, partitions))
            elif len(existing) != partitions:
                raise other_count(stream, len(existing), partitions, f"log:{self._directory}")

    def starts(self, stream: str) -> list[int]:
        """The first offset that can be read, by partition."""
        return [extents.start for extents in self._partitions(stream)]

    def ends(self, stream: str) -> list[int]:
        """The offset that the next published record will have, by partition."""
        return [extents.end for extents in self._partitions(stream)]

    def checkpoints(self, group: str) -> dict[str, bytes]:
        """The last checkpoint of each task of a group, by task name."""
        return {task: data for task, data in self._journal.refresh().checkpoints.get(group, {}).items() if data}

    def record_limits(self, streams: Collection[str]) -> dict[str, SizeLimit]:
        """No limits: a record of the log may have some 4 GB, more than what comes before it in a run could hold."""
        del streams
        return {}

    def _partitions(self, stream: str) -> list[Extents]:
        return partitions_of(self._journal.refresh(), self._directory, stream)

    def _make_directories(self, stream: str, partitions: int) -> None:
        home = self._directory / "streams" / stream
        with explained("make", home):
            for partition in range(partitions):
                make_folder(home / str(partition))
        if self._fsync:
            sync_directory(home)
            sync_directory(home.parent)
