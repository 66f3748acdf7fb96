"""Checks that the stores of a plan exist, for `fluvial check` and before a run starts."""

from collections.abc import Iterator
from pathlib import Path

from ....dsl.errors import SystemProblem
from ....planner.plan import Plan
from ....planner.settings import Settings
from ....planner.task_assignment import stages_of, tasks_of
from ...preflight.state_compatibility import reset_command
from ...state.read_only import StoreView
from ...systems.contract import ProducingSystem, System
from ..checkpoints.checkpoint import checkpoints_in
from . import errors as store_problems
from .alignment import stored_checkpoint
from .state_moves import moves
from .task_stores import every_folder, number_in, state_folder, task_folders


def missing_stores(plan: Plan, system: System, settings: Settings) -> Iterator[SystemProblem]:
    """The problems of a plan's stores, where state has no other copy. A run of the pipeline may be active.

    Problems that only show in an open store are reported when a run opens it.
    """
    if isinstance(system, ProducingSystem) or state_folder(plan, system, settings) is None:
        return
    stored, reset = checkpoints_in(system, plan.name), reset_command(plan, system, settings)
    for task in dict.fromkeys([*tasks_of(stages_of(plan)), *(move.source for move in moves(plan, stored))]):
        if task in stored:
            if stored[task].states and not task_folders(plan, system, settings, task):
                yield store_problems.gone(plan, reset, task, stored[task].states)
        # The start publishes a first commit. The log is read again, since an active run may have committed meanwhile.
        elif _commits(plan, system, settings, task) > 1 and task not in checkpoints_in(system, plan.name):
            yield store_problems.unknown(plan, reset, system.url, task)


def latest_folders(plan: Plan, system: System, settings: Settings, operator: str) -> list[Path]:
    """The folders on this machine that have an operator's state, one for each task number: the one that was written
    last, whatever its stage was called. For systems with changelogs. Only the stores are read, no broker is asked."""
    latest: dict[str, Path] = {}
    for folder in every_folder(plan, system, settings):
        with StoreView(folder) as view:
            checkpoint = stored_checkpoint(view, folder.name)
        if checkpoint is not None and operator in checkpoint.states:
            latest[number_in(folder)] = folder
    return [latest[number] for number in sorted(latest)]


def _commits(plan: Plan, system: System, settings: Settings, task: str) -> int:
    """How many commits a store has had; 0 without a store, or if its version did not count them."""
    for folder in task_folders(plan, system, settings, task):
        with StoreView(folder) as view:
            checkpoint = stored_checkpoint(view, task)
            return 0 if checkpoint is None else checkpoint.number
    return 0
