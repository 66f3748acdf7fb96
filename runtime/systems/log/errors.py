"""The errors for a log that is missing or damaged, as a whole or in part."""

from pathlib import Path

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain

_RESTORE = "restore the whole log from a copy, or move it away and produce its streams again"


def lost(wrong: str, expected: str, directory: Path) -> SystemProblem:
    """Committed records or entries are lost, or may be. The rest of the log is intact."""
    accept = f'fluvial.runtime.systems.log.accept_loss("{directory}")'
    remedy = f"{_RESTORE}; to continue without what is lost, stop all that use the log and call {accept}"
    return SystemProblem(explain(wrong, expected, remedy, at=f"log:{directory}"))


def absent(directory: Path) -> SystemProblem:
    """A reader found neither journal nor streams there. It makes no log, since the path may be a slip."""
    expected, remedy = "a directory that a producer or `create` has made", "correct the path, or write to the log first"
    return SystemProblem(explain(f"there is no log in {directory}", expected, remedy))


def gone(journal: Path) -> SystemProblem:
    """There are streams, but no journal."""
    wrong = f"the journal {journal} is gone"
    streams = journal.with_name("streams")
    expected = f"a journal beside {streams}: it holds the offsets of all records there, and the checkpoints"
    return SystemProblem(explain(wrong, expected, _RESTORE, at=f"log:{journal.parent}"))


def damaged(journal: Path, at: int) -> SystemProblem:
    """An entry in the middle of a journal cannot be read."""
    wrong = f"the journal {journal} is damaged at byte {at}: the check sum of that entry does not match"
    expected = "a file that only this library writes; entries follow the damaged one, so no crash has cut it"
    return SystemProblem(explain(wrong, expected, _RESTORE, at=f"log:{journal.parent}"))


def damaged_mark(segment: Path) -> SystemProblem:
    """The mark of a segment, with the last entry that published bytes of it, cannot be read."""
    wrong = f"the mark at the start of {segment} is damaged: its check sum does not match"
    expected = "the number of the last journal entry that published records of this file"
    return lost(wrong, expected, segment.parents[3])


def unknown_format(directory: Path, version: str, expected: int) -> SystemProblem:
    """The format of a journal is unknown to this version of the library."""
    wrong = f"the log has the format {version}: another version of this library wrote it"
    remedy = "use that version, or another directory"
    return SystemProblem(explain(wrong, f"the format {expected}", remedy, at=f"log:{directory}"))


def missing_records(wrong: str, where: str) -> SystemProblem:
    """Published records cannot be read; `where` names their partition and the first offset."""
    remedy = "restore the file from a copy, or produce the stream again"
    return SystemProblem(explain(wrong, "whole frames with the records that were published", remedy, at=where))


def unsynced(segment: Path) -> SystemProblem:
    """An earlier sync of the segment has failed, so its bytes may be lost."""
    remedy = "check the disk, then start again"
    return SystemProblem(
        explain(f"{segment} could not be synced before", "a disk that stores what it accepts", remedy, at=segment)
    )


def cut_short(segment: Path, size: int, needed: int) -> SystemProblem:
    """A segment lacks bytes of a prepared transaction."""
    wrong = f"{segment} has {size} bytes: the machine stopped before they were synced, or the file was cut"
    return SystemProblem(explain(wrong, f"{needed} bytes or more", "produce the transaction again", at=segment))
