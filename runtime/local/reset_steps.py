"""Removing what the local engine keeps of a pipeline: the state of operators, or all that a run would go on from.

The state of operators goes with the record of it in checkpoints, which decide what counts. Where all goes, they go
last: as long as they are there, a run that finds no state for them is refused, so that a crash in between leaves
nothing that could be gone on with by mistake.
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
from .stores.alignment import CommittedLog, publish_pending
from .stores.store_keys import prefix_of
from .stores.task_stores import pipeline_folders, state_folder, task_folders


@contextmanager
def reset_steps(
    plan: Plan, system: System, settings: Settings, operators: Sequence[str] | None
) -> Iterator[list[ResetStep]]:
    """The steps that remove the state of operators, or all that is kept where they are None. No container of the
    pipeline runs as long as the context lasts.

    Raises SystemProblem where a container is alive, UsageError for an operator of which no state is kept,
    UnsupportedError in memory.
    """
    if not isinstance(system, ProducingSystem) and state_folder(plan, system, settings) is None:
        wrong = f"what is kept in {system.url} cannot be reset"
        raise UnsupportedError(explain(wrong, "log:DIR or kafka://HOST:PORT", "begin with a new system in memory"))
    with no_containers(plan.name, system):
        if not isinstance(system, ProducingSystem):
            stateful = [task for task, one in checkpoints_in(system, plan.name).items() if one.states]
            _publish_pending(plan, cast("PublishingSystem", system), settings, stateful)
        stored = checkpoints_in(system, plan.name)
        if operators is None:
            yield _all_steps(plan, system, settings, stored)
        else:
            _check_operators(plan, stored, operators)
            yield _state_steps(plan, system, settings, stored, operators)


def _check_operators(plan: Plan, stored: Checkpoints, operators: Sequence[str]) -> None:
    known = {store.operator for store in plan.stores}.union(*(checkpoint.states for checkpoint in stored.values()))
    for operator in operators:
        if operator not in known:
            wrong = f"no state of {operator!r} is kept by pipeline {plan.name!r}"
            raise UsageError(explain(wrong, f"one of {', '.join(sorted(known)) or 'none'}", at=plan.pipeline.origin))


def _state_steps(
    plan: Plan, system: System, settings: Settings, stored: Checkpoints, operators: Sequence[str]
) -> list[ResetStep]:
    left = {task: without(checkpoint, operators) for task, checkpoint in stored.items()}
    changed = {task: now for task, now in left.items() if now != stored[task]}
    if isinstance(system, ProducingSystem):
        # A store whose changelog was made anew is no copy of it, and is emptied when a run opens it.
        removals = _removed(system, [changelog(plan.name, operator) for operator in operators], "changelog")
        writes = (
            ResetStep("checkpoint", task, partial(write_checkpoints, system, plan.name, {task: now}))
            for task, now in changed.items()
        )
        return [*removals, *writes]
    if not changed:
        return []
    # From then on the state does not count, whether it has been removed or not.
    steps = [ResetStep("checkpoint", ", ".join(changed), partial(write_checkpoints, system, plan.name, changed))]
    for task in changed:
        mine = [operator for operator in operators if without(stored[task], [operator]) != stored[task]]
        for folder in task_folders(plan, system, settings, task):
            steps.append(ResetStep("state", f"{', '.join(mine)} in {folder}", partial(_clear, folder, mine)))
    return steps


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
        steps += [ResetStep("stream", name, partial(_empty, system, name)) for name in between if _holds(system, name)]
    return [*steps, *(ResetStep("checkpoint", task, partial(_forget, plan, system, task)) for task in stored)]


def _holds(system: System, stream: str) -> bool:
    admin = system.admin()
    return admin.partitions(stream) is not None and admin.starts(stream) != admin.ends(stream)


def _empty(system: System, stream: str) -> None:
    """Let go of all that a stream holds."""
    with closing(system.producer()) as producer:
        producer.trim({(stream, partition): end for partition, end in enumerate(system.admin().ends(stream))})


def _removed(system: ProducingSystem, streams: Sequence[str], kind: RemovedKind) -> list[ResetStep]:
    admin = system.admin()
    return [ResetStep(kind, name, partial(admin.remove, name)) for name in streams if admin.partitions(name)]


def _clear(folder: Path, operators: Sequence[str]) -> None:
    """Remove the state of operators from a store."""
    with closing(RocksStore(folder)) as store:
        store.write([(prefix_of(operator), None, None) for operator in operators])


def _publish_pending(plan: Plan, system: PublishingSystem, settings: Settings, tasks: Collection[str]) -> None:
    """Publish the last commits of stores, where a crash has kept them from being published."""
    with closing(system.producer()) as producer:
        log = CommittedLog(plan, system, producer, reset_command(plan, system, settings))
        for task in tasks:
            for folder in task_folders(plan, system, settings, task):
                # What cannot be published is no reason to leave what depends on it as it is.
                with closing(RocksStore(folder)) as store, suppress(SystemProblem):
                    publish_pending(log, task, store)


def _forget(plan: Plan, system: System, task: str) -> None:
    with closing(system.producer()) as producer:
        producer.begin().commit(plan.name, {task: b""})
