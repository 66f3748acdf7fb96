"""Removing segment files: of records that all readers have passed, and of writers that were killed."""

import os
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from ..contract import OtherWriters, StreamPartition
from .disk import explained
from .index import Extents, LogIndex, Trimmed, extents_of
from .journal import Journal
from .segments import segment_path, writer_of


@dataclass(frozen=True, slots=True)
class Trimming:
    """The writer that trims, its files with unpublished records, and the other producers."""

    writer: str
    unpublished: Collection[str]
    others: OtherWriters


def trim(journal: Journal, starts: Mapping[StreamPartition, int], by: Trimming) -> set[str]:
    """Drop extents before these offsets where that frees a file, and remove the files without any extent.

    The journal is written first: a crash leaves files that no entry names, and the next call removes them. Files with
    records that may still be published stay. Returns the names of the removed files.
    """
    with journal.exclusive() as index:
        for partition, before in starts.items():
            if _frees_a_file(extents_of(index, journal.directory, *partition), before):
                journal.add(Trimmed(*partition, before))
    folders = {partition: segment_path(journal.directory, *partition, "") for partition in starts}
    # `others` is called last. A writer that begins now has no file in the list. A writer that ends now was still known
    # when the extents were dropped, and removes its files itself.
    listed = {partition: _segments_in(folder) for partition, folder in folders.items()}
    others = by.others() if _has_others(listed, by.writer) else ()
    index = journal.refresh()
    removed: set[str] = set()
    for partition, names in listed.items():
        needed = {*extents_of(index, journal.directory, *partition).names, *by.unpublished}
        for name in names:
            if name not in needed and (by.writer == writer_of(name) or _is_leaving(name, others)):
                with explained("remove", folders[partition] / name):
                    (folders[partition] / name).unlink(missing_ok=True)
                removed.add(name)
    return removed


def _is_leaving(name: str, others: Collection[str] | None) -> bool:
    return others is not None and writer_of(name) not in others


def _segments_in(folder: Path) -> list[str]:
    with explained("read", folder):
        return [name for name in os.listdir(folder) if name.endswith(".seg")]


def _has_others(listed: Mapping[StreamPartition, list[str]], writer: str) -> bool:
    return any(writer_of(name) != writer for names in listed.values() for name in names)


def _frees_a_file(extents: Extents, before: int) -> bool:
    return len(extents.names_after(extents.whole_before(before))) < len(extents.names)


def vacuum(directory: str | Path, older_than: timedelta, *, now: Callable[[], float] = time.time) -> list[Path]:
    """Remove segment files without published records that are older than `older_than`; return their paths.

    A writer that was killed leaves files of its unfinished transactions. They look like files of a prepared transaction
    whose token is still to be published. So `older_than` must be longer than any token waits and any transaction is
    open, a day for example. To publish a token whose file was removed raises SystemProblem, and nothing becomes
    visible. Nothing calls this by itself. Published records are never removed.
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


def _unpublished(directory: Path, index: LogIndex) -> Iterator[Path]:
    published = {name for partitions in index.streams.values() for extents in partitions for name in extents.names}
    for path in sorted((directory / "streams").glob("*/*/*.seg")):
        if path.name not in published:
            yield path
