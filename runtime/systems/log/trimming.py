"""Removing what all readers of a partition have passed."""

import os
from collections.abc import Mapping
from pathlib import Path

from ..contract import StreamPartition
from .disk import explained
from .index import Extents, Trimmed
from .journal import Journal
from .lookup import extents_of
from .segments import segment_path


def trim(journal: Journal, starts: Mapping[StreamPartition, int], in_use: set[str]) -> None:
    """Forget extents before these offsets where that frees a file, and remove the files without any extent.

    The journal comes first: a crash leaves files that no entry names, which the next call removes. Files `in_use` stay,
    since what they hold may still be published.
    """
    with journal.exclusive() as index:
        for (stream, partition), before in starts.items():
            extents = extents_of(index, journal.directory, stream, partition)
            if _frees_a_file(extents, before, in_use):
                journal.add(Trimmed(stream, partition, before))
            folder = segment_path(journal.directory, stream, partition, "")
            _remove(folder, {*extents.names, *in_use})


def _frees_a_file(extents: Extents, before: int, in_use: set[str]) -> bool:
    left = extents.names_after(extents.whole_before(before))
    return not left.issuperset(name for name in extents.names if name not in in_use)


def _remove(folder: Path, kept: set[str]) -> None:
    with explained("read", folder):
        found = [folder / name for name in os.listdir(folder) if name.endswith(".seg")]
    for path in found:
        if path.name not in kept:
            with explained("remove", path):
                path.unlink()
