"""Spark's own logs in a checkpoint: the batches that are planned and done, and the end offsets of each.

Spark writes a file for each batch: to its offset log when it plans the batch, to its commit log when the batch is done.
"""

import msgspec

from ...state.checkpoint_path import CheckpointPath, children
from ..atomic_file import damaged

PLANNED = "offsets"
"""The folder of Spark's offset log."""
DONE = "commits"
"""The folder of Spark's commit log."""
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
"""Spark's setting."""


def batch_numbers(checkpoint: CheckpointPath, kind: str) -> list[int]:
    """The numbers of the batches that are PLANNED, or DONE. Spark removes old ones."""
    return [int(file.name) for file in children(checkpoint / kind) if file.name.isdecimal()]


def last_batch(checkpoint: CheckpointPath, kind: str) -> int:
    """The number of the last batch that is PLANNED, or DONE; -1 before the first."""
    return max(batch_numbers(checkpoint, kind), default=-1)


def logged_at(checkpoint: CheckpointPath, kind: str, number: int) -> float:
    """When a batch was PLANNED, or DONE, in seconds since epoch. Raises FileNotFoundError if Spark has removed it."""
    return (checkpoint / kind / str(number)).stat().st_mtime


def last_end_offsets(checkpoint: CheckpointPath, kind: str) -> list[str] | None:
    """The end offsets of the last batch that is PLANNED, or DONE: one line a source. None before the first batch."""
    numbers = batch_numbers(checkpoint, kind)
    return end_offsets(checkpoint, max(numbers)) if numbers else None


def end_offsets(checkpoint: CheckpointPath, number: int) -> list[str]:
    """The end offsets of a planned batch: one line a source. Raises FileNotFoundError if Spark has removed the file."""
    version, lines = _planned(checkpoint, number)
    if version != "v2":
        return lines
    # In version 2 each line begins with the number of its source.
    numbered = (line.partition(":") for line in lines)
    return [offsets for _, _, offsets in sorted(numbered, key=lambda parts: int(parts[0]))]


def planned_lines(checkpoint: CheckpointPath, number: int) -> list[str]:
    """The lines of `end_offsets` as they are in the file. They differ by the version of Spark's offset log."""
    return _planned(checkpoint, number)[1]


def shuffle_partitions(checkpoint: CheckpointPath) -> int | None:
    """The number of shuffle partitions of the last planned batch, by which Spark has divided state. A session's setting
    does not change it. None before the first batch."""
    numbers = batch_numbers(checkpoint, PLANNED)
    return _shuffle_partitions(checkpoint, max(numbers)) if numbers else None


def is_dividing_state(checkpoint: CheckpointPath) -> bool:
    """Whether a change of the number of shuffle partitions was cut off. It is a batch of its own, which Spark runs
    again only as such a change."""
    unfinished, before = unfinished_batch(checkpoint), last_batch(checkpoint, DONE)
    if unfinished is None or before not in batch_numbers(checkpoint, PLANNED):
        return False
    return _shuffle_partitions(checkpoint, before) != _shuffle_partitions(checkpoint, unfinished)


def _shuffle_partitions(checkpoint: CheckpointPath, number: int) -> int:
    file = checkpoint / PLANNED / str(number)
    lines = file.read_text(errors="replace").splitlines()
    try:
        conf = msgspec.json.decode(lines[1], type=_Metadata).conf
        return int(conf[SHUFFLE_PARTITIONS])
    except (IndexError, KeyError, ValueError, msgspec.DecodeError):
        raise damaged(file, "it does not say how many shuffle partitions there are") from None


class _Metadata(msgspec.Struct):
    """The metadata of a batch in Spark's offset log."""

    conf: dict[str, str]


def _planned(checkpoint: CheckpointPath, number: int) -> tuple[str, list[str]]:
    # A file of Spark's offset log has a version, a line of metadata, and one line a source. The session's setting
    # spark.sql.streaming.offsetLog.formatVersion chooses the version.
    file = checkpoint / PLANNED / str(number)
    text = file.read_text(errors="replace")
    version, *lines = text.splitlines() or [""]
    if len(lines) < 2:  # Spark does not sync its files: after a power cut the last one may be empty
        raise damaged(file, f"it has {len(text)} characters, and no offsets")
    return version, lines[1:]


def unfinished_batch(checkpoint: CheckpointPath) -> int | None:
    """The batch that is planned and not done; None between two batches."""
    # The commit log is read first: a batch planned and done between the two reads then counts as not done.
    done = last_batch(checkpoint, DONE)
    planned = last_batch(checkpoint, PLANNED)
    return planned if planned > done else None


def is_between_batches(checkpoint: CheckpointPath) -> bool:
    """Whether every batch that is planned is done."""
    return unfinished_batch(checkpoint) is None
