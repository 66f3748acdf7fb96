"""What Spark notes of its batches in a checkpoint: how many are planned and done, and how far each goes."""

from pathlib import Path

PLANNED = "offsets"
DONE = "commits"


def batch_numbers(checkpoint: Path, kind: str) -> list[int]:
    """The numbers of the batches that are PLANNED, or DONE, as far as they are kept."""
    return [int(file.name) for file in (checkpoint / kind).glob("[0-9]*") if file.name.isdecimal()]


def logged_at(checkpoint: Path, kind: str, number: int) -> float:
    """When a batch was PLANNED, or DONE, in seconds since epoch; FileNotFoundError where Spark keeps it no longer."""
    return (checkpoint / kind / str(number)).stat().st_mtime


def last_end_offsets(checkpoint: Path, kind: str) -> list[str] | None:
    """How far the last batch goes that is PLANNED, or DONE: a line for each of its sources; None where there is no
    batch yet."""
    found = batch_numbers(checkpoint, kind)
    return end_offsets(checkpoint, max(found)) if found else None


def end_offsets(checkpoint: Path, number: int) -> list[str]:
    """How far a planned batch goes: a line for each source; FileNotFoundError where Spark keeps it no longer."""
    version, lines = _planned(checkpoint, number)
    if version != "v2":
        return lines
    # Each begins with its source's number.
    numbered = (line.partition(":") for line in lines)
    return [told for _, _, told in sorted(numbered, key=lambda parts: int(parts[0]))]


def planned_lines(checkpoint: Path, number: int) -> list[str]:
    """The same lines as they are in the file, which differ by the version of Spark's offset log."""
    return _planned(checkpoint, number)[1]


def _planned(checkpoint: Path, number: int) -> tuple[str, list[str]]:
    # Spark's offset log: a version, a line of metadata, and the lines of the sources. Which version it writes is set in
    # the session, by spark.sql.streaming.offsetLog.formatVersion.
    version, _, *lines = (checkpoint / PLANNED / str(number)).read_text().splitlines()
    return version, lines


def is_between_batches(checkpoint: Path) -> bool:
    """Whether every batch that is planned is done."""
    # In this order: a batch that is planned and done between the two looks as if it were not done.
    done = max(batch_numbers(checkpoint, DONE), default=-1)
    return max(batch_numbers(checkpoint, PLANNED), default=-1) <= done
