"""The errors for a log that is missing or damaged, as a whole or in part."""

from pathlib import Path

from ....dsl.errors import SystemProblem

_REMEDY = "Restore the whole log from a copy, or move it away and produce its streams again."


def lost(problem: str, directory: Path) -> SystemProblem:
    """Committed records or entries are lost, or may be. The rest of the log is intact."""
    return SystemProblem(
        f"{problem} {_REMEDY} To go on without what is lost, stop all that use the log and call "
        f'fluvial.runtime.systems.log.accept_loss("{directory}").'
    )


def absent(directory: Path) -> SystemProblem:
    """There is no log in the directory."""
    return SystemProblem(
        f"There is no log in {directory}. Expected a directory that a producer or `create` has made. "
        "Correct the path, or write to the log first."
    )


def gone(journal: Path) -> SystemProblem:
    """There are streams, but no journal."""
    return SystemProblem(
        f"The journal {journal} is gone. Expected it beside {journal.with_name('streams')}, since it has the offsets "
        f"of all records there and the checkpoints. {_REMEDY}"
    )


def damaged(journal: Path, at: int) -> SystemProblem:
    """An entry in the middle of a journal cannot be read."""
    return SystemProblem(
        f"The journal {journal} is damaged at byte {at}: the check sum of that entry does not match, and entries "
        f"follow it. Expected a file that only this library writes. {_REMEDY}"
    )


def damaged_mark(segment: Path) -> SystemProblem:
    """The mark of a segment, with the last entry that published bytes of it, cannot be read."""
    problem = f"The mark at the start of {segment} is damaged: its check sum does not match."
    expected = "Expected the number of the last journal entry that published records of this file."
    return lost(f"{problem} {expected}", segment.parents[3])


def foreign(directory: Path, version: str, expected: int) -> SystemProblem:
    """The format of a journal is unknown to this version of the library."""
    return SystemProblem(
        f"The log in {directory} has the format {version}, expected {expected}. "
        "It was written by another version of this library: use that version, or another directory."
    )
