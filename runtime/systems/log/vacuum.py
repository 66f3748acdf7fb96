"""Removing what dead writers left behind."""

import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

from .disk import explained
from .index import Index
from .journal import Journal


def vacuum(directory: str | Path, older_than: timedelta, *, now: Callable[[], float] = time.time) -> list[Path]:
    """Remove segment files without any published record that were last written before; return their paths.

    A writer that was killed leaves the files of its unfinished transactions. Nothing tells them from those of a
    prepared one whose token is still to be published, hence the age: it must be longer than any token waits and any
    transaction is open, a day for example. Publishing a token whose file was removed raises SystemProblem, and nothing
    becomes visible. Never runs by itself. Published records are never removed here.
    """
    journal = Journal(Path(directory))
    before = now() - older_than.total_seconds()
    # Under the lock nobody can publish a file between the look at the index and the removal.
    with journal.exclusive() as index:
        removed = [path for path in _unpublished(journal.directory, index) if path.stat().st_mtime < before]
        for path in removed:
            with explained("remove", path):
                path.unlink(missing_ok=True)
    journal.close()
    return removed


def _unpublished(directory: Path, index: Index) -> Iterator[Path]:
    kept = {name for partitions in index.streams.values() for extents in partitions for name in extents.names}
    for path in sorted((directory / "streams").glob("*/*/*.seg")):
        if path.name not in kept:
            yield path
