"""Removing the checkpoint of a query: what is not removed whole is not gone on with."""

import shutil
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ...planner.plan import Plan
from ..reset_step import ResetStep
from .connection import Connection
from .kept_query import kept_queries, set_aside, set_aside_before
from .query import group_of


def removals(plan: Plan, connection: Connection, root: Path) -> Iterator[ResetStep]:
    """The steps that remove all checkpoints of a pipeline, whose folder is `root`."""
    for query in kept_queries(root):
        yield ResetStep("query", str(query.folder), partial(_remove, plan, connection, query.folder))
    for folder in set_aside_before(root):
        yield ResetStep("query", str(folder), partial(_remove_aside, plan, connection, folder))


def finish_removals(plan: Plan, connection: Connection, root: Path) -> None:
    """Remove what a reset has set aside that was ended before it had removed it."""
    for folder in set_aside_before(root):
        _remove_aside(plan, connection, folder)


def _remove(plan: Plan, connection: Connection, folder: Path) -> None:
    if folder.exists():
        _remove_aside(plan, connection, set_aside(folder))


def _remove_aside(plan: Plan, connection: Connection, folder: Path) -> None:
    group = group_of(plan, folder)
    if group is not None:
        connection.forget(group)
    shutil.rmtree(folder, ignore_errors=True)
