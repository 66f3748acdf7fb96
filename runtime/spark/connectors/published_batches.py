"""Checks that the batches of a query that the log has published belong to the query's checkpoint."""

from collections.abc import Mapping
from hashlib import sha256

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ....planner.plan import Plan
from ...state.checkpoint_path import CheckpointPath
from ..lowering.query_plan import QueryPlan
from ..query.checkpoint_log import DONE, PLANNED, last_batch, planned_lines

BATCH = "batch"
"""The name under which the log has the number of the last published batch."""
OFFSETS = "offsets"
"""The name under which the log has a hash of that batch's end offsets. Older versions wrote no hash."""


def published_batch(saved: Mapping[str, bytes]) -> int:
    """The number of a query's last published batch; -1 before the first. `saved` are the query's checkpoints in the
    log."""
    return int(saved.get(BATCH) or -1)


def offsets_hash(checkpoint: CheckpointPath, number: int) -> bytes:
    """A hash of the end offsets of a planned batch. A batch that Spark runs again has the same end offsets."""
    lines = planned_lines(checkpoint, number)
    return sha256("\n".join(lines).encode()).hexdigest().encode()


def check_published(query: QueryPlan, saved: Mapping[str, bytes], system: str, reset: str) -> None:
    """Raise SystemProblem unless the log has published every batch that Spark has done, and none that Spark has not
    planned. Else Spark would drop a new batch, with other messages, because its number counts as published.

    `saved` are the query's checkpoints in the log, `system` is the log's name, and `reset` the command that removes the
    checkpoints.
    """
    done, planned = (last_batch(query.checkpoint, kind) for kind in (DONE, PLANNED))
    published = published_batch(saved)
    if published > planned:
        wrong = f"is older than its outputs: batches planned {planned + 1}, published in {system} {published + 1}"
    elif published < done and not _has_read_nothing(query, done, published, saved):
        wrong = f"is newer than {system}: batches done {done + 1}, published there {published + 1}"
    elif _other_offsets(query, published, saved):
        wrong = f"has read other messages up to batch {published} than those whose outputs {system} has"
    else:
        return
    raise _not_its_own(query.plan, query.folder, wrong, reset)


def _has_read_nothing(query: QueryPlan, done: int, published: int, saved: Mapping[str, bytes]) -> bool:
    """Whether Spark has done one batch behind the last published one, which has read nothing: it has distributed state
    over another number of tasks."""
    return done == published + 1 and offsets_hash(query.checkpoint, done) == saved.get(OFFSETS)


def _other_offsets(query: QueryPlan, published: int, saved: Mapping[str, bytes]) -> bool:
    if published < 0 or OFFSETS not in saved:
        return False
    try:
        return offsets_hash(query.checkpoint, published) != saved[OFFSETS]
    except FileNotFoundError:  # Spark removes all but the last hundred batches, or fewer if it is set so
        return False


def _not_its_own(plan: Plan, folder: CheckpointPath, wrong: str, reset: str) -> SystemProblem:
    text = f"the checkpoint in {folder} of pipeline {plan.name!r} {wrong}"
    expected = "the checkpoint as the last run left it; one that was copied or restored lacks what came after"
    remedy = (
        "put it back together with a copy of the log of the same time, or start over; inputs are then read from their "
        f"start, and outputs come in addition to those that are there: {reset} --all"
    )
    return SystemProblem(explain(text, expected, remedy, plan.pipeline.origin))
