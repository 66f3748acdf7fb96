"""Removing what all readers of a partition have passed."""

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..contract import OtherWriters, StreamPartition
from .disk import explained
from .index import Extents, Trimmed
from .journal import Journal
from .lookup import extents_of
from .segments import segment_path, writer_of


@dataclass(frozen=True, slots=True)
class Trimming:
    """The writer that trims, which of its files hold what is not published yet, and who else may write."""

    writer: str
    unpublished: Collection[str]
    others: OtherWriters


def trim(journal: Journal, starts: Mapping[StreamPartition, int], by: Trimming) -> set[str]:
    """Forget extents before these offsets where that frees a file, and remove the files without any extent.

    The journal comes first: a crash leaves files that no entry names, which the next call removes. Files of which
    something may still be published stay. Returns the names of the files that were removed.
    """
    with journal.exclusive() as index:
        for place, before in starts.items():
            if _frees_a_file(extents_of(index, journal.directory, *place), before):
                journal.add(Trimmed(*place, before))
    folders = {place: segment_path(journal.directory, *place, "") for place in starts}
    # Others are asked for last. A writer that begins now has no file in the list; one that ends now was still there
    # when the extents were forgotten, and removes its files itself.
    listed = {place: _segments_in(folder) for place, folder in folders.items()}
    others = by.others() if _has_others(listed, by.writer) else ()
    index = journal.refresh()
    removed: set[str] = set()
    for place, names in listed.items():
        needed = {*extents_of(index, journal.directory, *place).names, *by.unpublished}
        for name in names:
            if name not in needed and (by.writer == writer_of(name) or _is_leaving(name, others)):
                with explained("remove", folders[place] / name):
                    (folders[place] / name).unlink(missing_ok=True)
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
