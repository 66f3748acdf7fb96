"""A journal for reading, which is opened once there is a log. To read a log that does not exist creates nothing."""

from pathlib import Path

from ...process.data_files import check_owner
from .disk import exists
from .index import LogIndex
from .journal import Journal

_PARTS = ("journal", "lock", "streams")


class LazyJournal:
    """The journal of a log that may not exist yet. Not for two threads at once, nor across a fork."""

    def __init__(self, directory: Path, *, fsync: bool = True) -> None:
        self._directory = directory
        self._fsync = fsync
        self._journal: Journal | None = None
        check_owner(directory)  # also of an empty folder: another user could fill it
        self.refresh()  # which raises SystemProblem for a log that is damaged

    def refresh(self) -> LogIndex:
        """The index after all entries so far; an empty one as long as there is no log."""
        if self._journal is None and self._exists():
            self.create()  # also if a part is missing: it knows a damaged log from one that is being made
        return LogIndex() if self._journal is None else self._journal.refresh()

    def _exists(self) -> bool:
        """Whether there is a log or a part of one, or a file in its place."""
        if any(exists(self._directory / part) for part in _PARTS):
            return True
        return exists(self._directory) and not self._directory.is_dir()

    def create(self) -> Journal:
        """The journal, of a new log if there is none."""
        if self._journal is None:
            self._journal = Journal(self._directory, create=True, fsync=self._fsync)
        return self._journal

    def close(self) -> None:
        """Close the journal, if it was ever opened."""
        if self._journal is not None:
            self._journal.close()
