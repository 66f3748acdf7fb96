"""The steps of a reset on the local engine: they remove the state of operators, or all checkpoints and state.

State of operators is removed from the checkpoints too, which decide which state counts. In a whole reset checkpoints
are removed last. If a reset crashes before that, the next run finds a checkpoint without state and is refused.
"""

import shutil
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import cast

from ...dsl.errors import SystemProblem, UnsupportedError, UsageError
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.settings import Settings
from ...planner.stream_names import changelog
from ..preflight.state_compatibility import reset_command
from ..reset_step import RemovedKind, ResetStep
from ..state import RocksStore
from ..systems.contract import ProducingSystem, PublishingSystem, System
from .checkpoints.checkpoint import Checkpoints, checkpoints_in, write_checkpoints
from .checkpoints.migration import without
from .coordination.exclusion import no_containers
from .journals.removal import empty, holds, journal_steps, journalled
from .stores.alignment import CommittedLog, publish_pending
from .stores.store_keys import prefix_of
from .stores.task_stores import pipeline_folders, state_folder, task_folders


@contextmanager
def reset_steps(
    plan: Plan, system: System, settings: Settings, operators: Sequence[str] | None, *, dry_run: bool = False
) -> Iterator[list[ResetStep]]:
    """The steps that remove the state of operators, or all checkpoints and state if `operators` is None. No container
    of the pipeline can run while the context is open; see `no_containers`, also for `dry_run`.

    Raises SystemProblem if a container is alive, UsageError for an operator without state, UnsupportedError for a
    system in memory.
    """
    if not isinstance(system, ProducingSystem) and state_folder(plan, system, settings) is None:
        wrong = f"a pipeline on {system.url} cannot be reset"
        raise UnsupportedError(explain(wrong, "log:DIR or kafka://HOST:PORT", "begin with a new system in memory"))
    with stopped(plan, system, settings, dry_run=dry_run):
        stored = checkpoints_in(system, plan.name)
        if operators is None:
            yield _all_steps(plan, system, settings, stored)
        else:
            _check_operators(plan, stored, operators)
            yield _state_steps(plan, system, settings, stored, operators)


@contextmanager
def stopped(plan: Plan, system: System, settings: Settings, *, dry_run: bool = False) -> Iterator[None]:
    """Let no container of a pipeline run while the context is open, and have its last commits published; but with
    `dry_run`, after which the log is as it was.

    Raises SystemProblem if a container is alive."""
    with no_containers(plan.name, system, dry_run=dry_run):
        if not isinstance(system, ProducingSystem) and not dry_run:
            # Before checkpoints are read: a crash may have left a last commit in a store alone.
            stateful = [task for task, one in checkpoints_in(system, plan.name).items() if one.states]
            _publish_pending(plan, cast("PublishingSystem", system), settings, stateful)
        yield


def _check_operators(plan: Plan, stored: Checkpoints, operators: Sequence[str]) -> None:
    known = {store.operator for store in plan.stores}.union(*(checkpoint.states for checkpoint in stored.values()))
    known |= journalled(plan, stored)
    for operator in operators:
        if operator not in known:
            wrong = f"no state of {operator!r} is kept by pipeline {plan.name!r}"
            raise UsageError(explain(wrong, f"one of {', '.join(sorted(known)) or 'none'}", at=plan.pipeline.origin))


def _state_steps(
    plan: Plan, system: System, settings: Settings, stored: Checkpoints, operators: Sequence[str]
) -> list[ResetStep]:
    left = {task: without(checkpoint, operators) for task, checkpoint in stored.items()}
    changed = {task: now for task, now in left.items() if now != stored[task]}
    with_journal = journalled(plan, stored).intersection(operators)
    journals = journal_steps(plan, system, with_journal)
    if isinstance(system, ProducingSystem):
        # The next run creates the changelogs again, and empties the stores, which belong to the old ones.
        removals = _removed(system, [changelog(plan.name, operator) for operator in operators], "changelog")
        writes = (
            ResetStep("checkpoint", task, partial(write_checkpoints, system, plan.name, {task: now}))
            for task, now in changed.items()
        )
        return [*removals, *journals, *writes]
    if not changed:
        return journals
    # After this step the state does not count, whether or not it has been removed.
    steps = [ResetStep("checkpoint", ", ".join(changed), partial(write_checkpoints, system, plan.name, changed))]
    for task in changed:
        keeping = [operator for operator in operators if operator not in with_journal]
        mine = [operator for operator in keeping if without(stored[task], [operator]) != stored[task]]
        for folder in task_folders(plan, system, settings, task) if mine else ():
            steps.append(ResetStep("state", f"{', '.join(mine)} in {folder}", partial(_clear, folder, mine)))
    return [*steps, *journals]


def _all_steps(plan: Plan, system: System, settings: Settings, stored: Checkpoints) -> list[ResetStep]:
    steps = [
        ResetStep("store", str(folder), partial(shutil.rmtree, folder, ignore_errors=True))
        for folder in pipeline_folders(plan, system, settings)
    ]
    between = [stream.name for stream in plan.streams if stream.kind == "intermediate"]
    if isinstance(system, ProducingSystem):
        operators = {store.operator for store in plan.stores}.union(
            *(checkpoint.changelogs for checkpoint in stored.values())
        )
        steps += _removed(system, [changelog(plan.name, operator) for operator in sorted(operators)], "changelog")
        steps += _removed(system, between, "stream")
    else:
        steps += [ResetStep("stream", name, partial(empty, system, name)) for name in between if holds(system, name)]
    steps += journal_steps(plan, system, journalled(plan, stored))
    # Checkpoints last: a reset that is cut off, and begun again, learns from them which changelogs there are.
    return [*steps, *(ResetStep("checkpoint", task, partial(_forget, plan, system, task)) for task in stored)]


def _removed(system: ProducingSystem, streams: Sequence[str], kind: RemovedKind) -> list[ResetStep]:
    admin = system.admin()
    return [ResetStep(kind, name, partial(admin.remove, name)) for name in streams if admin.partitions(name)]


def _clear(folder: Path, operators: Sequence[str]) -> None:
    """Remove the state of operators from a store."""
    with closing(RocksStore(folder)) as store:
        store.write([(prefix_of(operator), None, None) for operator in operators])


def _publish_pending(plan: Plan, system: PublishingSystem, settings: Settings, tasks: Collection[str]) -> None:
    """Publish the last commits of stores that a crash has left unpublished."""
    with closing(system.producer()) as producer:
        log = CommittedLog(plan, system, producer, reset_command(plan, system, settings))
        for task in tasks:
            for folder in task_folders(plan, system, settings, task):
                # A commit that cannot be published does not keep the reset from removing its state.
                with closing(RocksStore(folder)) as store, suppress(SystemProblem):
                    publish_pending(log, task, store)


def _forget(plan: Plan, system: System, task: str) -> None:
    with closing(system.producer()) as producer:
        producer.begin().commit(plan.name, {task: b""})
