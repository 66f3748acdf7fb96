"""Removes the checkpoints of queries. No run continues a checkpoint that is removed in part."""

from collections.abc import Iterator
from functools import partial

from ....planner.plan import Plan
from ...reset_step import ResetStep
from ...state.checkpoint_path import CheckpointPath
from .checkpoint_record import begin_removal, end_removal, folders_set_aside, query_folders, remove_query
from .connection import Connection


def removals(plan: Plan, connection: Connection, root: CheckpointPath) -> Iterator[ResetStep]:
    """The steps that remove all checkpoints of the pipeline whose folder is `root`. The first step marks all of them
    for removal. If the steps are interrupted after it, the next run removes the rest. They remove damaged checkpoints,
    too."""
    for folder in [*query_folders(root), *folders_set_aside(root)]:
        yield ResetStep("query", str(folder), partial(_remove, plan, connection, root, folder))


def finish_removals(plan: Plan, connection: Connection, root: CheckpointPath) -> None:
    """Remove what an interrupted reset has left."""
    for folder in folders_set_aside(root):
        remove_query(plan, connection, folder)
    end_removal(root)


def _remove(plan: Plan, connection: Connection, root: CheckpointPath, folder: CheckpointPath) -> None:
    if folder.exists():
        begin_removal(root)
        remove_query(plan, connection, folder)
        if not folders_set_aside(root):
            end_removal(root)
