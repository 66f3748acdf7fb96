"""Accepts the loss of committed records, so that a damaged log opens again."""

import os
from pathlib import Path

from ....dsl.errors import SystemProblem
from . import marks
from .disk import Descriptor, explained
from .journal import Journal


def accept_loss(directory: str | Path) -> None:
    """Take the entries that a journal still has for all that were committed, so that the log opens again.

    For a log without a copy whose journal has lost its last entries, or whose marks are damaged. The records and
    checkpoints that the lost entries published are gone, so tasks may repeat their latest work. Call it while nothing
    uses the log.

    Raises SystemProblem where there is no journal, or one that is damaged in the middle.

    >>> from tempfile import mkdtemp
    >>> from fluvial.runtime.systems.log import LogSystem
    >>> directory = Path(mkdtemp())
    >>> LogSystem(directory).admin().create("clicks", partitions=1)
    >>> whole = (directory / "journal").read_bytes()
    >>> _ = (directory / "journal").write_bytes(whole[:-1])
    >>> accept_loss(directory)
    >>> LogSystem(directory).admin().streams()
    {}
    """
    journal = Journal(Path(directory), lenient=True)
    try:
        with journal.exclusive():
            for path in marks.segments(journal.directory):
                _lower(path, journal.position)
            journal.mark_anew()
    finally:
        journal.close()


def _lower(path: Path, position: int) -> None:
    """Lower the mark of a segment to a position."""
    segment = Descriptor(path, os.O_RDWR)
    try:
        with explained("write to", path):
            if _is_beyond(segment.number, path, position):
                marks.write_anew(segment.number, position)
    finally:
        segment.close()


def _is_beyond(number: int, path: Path, position: int) -> bool:
    try:
        return (marks.read(number, path) or 0) > position
    except SystemProblem:
        return True  # it is damaged
