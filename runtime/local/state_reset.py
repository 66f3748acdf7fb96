"""Removing what the local engine keeps of a pipeline: the state of operators, or all that a run would go on from.

Checkpoints go last: as long as they are there, a run that finds no state for them is refused, so that a crash in
between leaves nothing that could be gone on with by mistake.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from typing import cast

from msgspec import structs

from ...dsl.checks import explain
from ...dsl.errors import UnsupportedError, UsageError
from ...planner.names import changelog
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..reset_step import RemovedKind, ResetStep
from ..systems.contract import PublishingSystem, SendingSystem, System
from . import checkpoint as checkpoints
from .checkpoint import Checkpoint
from .commits import CHECKPOINT, META
from .exclusion import no_containers
from .published import publish_pending
from .stores import OpenStore, kept_stores, pipeline_folders, state_folder

Kept = Mapping[str, Checkpoint]
"""The checkpoints of a pipeline, by task."""


@contextmanager
def reset_steps(
    plan: Plan, system: System, settings: Settings, operators: Sequence[str] | None
) -> Iterator[list[ResetStep]]:
    """The steps that remove the state of operators, or all that is kept where they are None. No container of the
    pipeline runs as long as the context lasts.

    Raises SystemProblem where a container is alive, UsageError for an operator of which no state is kept,
    UnsupportedError in memory.
    """
    if not isinstance(system, SendingSystem) and state_folder(plan, system, settings) is None:
        wrong = f"what is kept in {system.url} cannot be reset"
        raise UnsupportedError(explain(wrong, "log:DIR or kafka://HOST:PORT", "begin with a new system in memory"))
    with no_containers(plan.name, system):
        kept = {task: checkpoints.decode(data, task) for task, data in system.admin().checkpoints(plan.name).items()}
        if operators is None:
            yield _all_steps(plan, system, settings, kept)
        else:
            _check_operators(plan, kept, operators)
            yield _state_steps(plan, system, settings, kept, operators)


def _check_operators(plan: Plan, kept: Kept, operators: Sequence[str]) -> None:
    known = {store.operator for store in plan.stores}.union(*(found.states for found in kept.values()))
    for operator in operators:
        if operator not in known:
            wrong = f"no state of {operator!r} is kept by pipeline {plan.name!r}"
            raise UsageError(explain(wrong, f"one of {', '.join(sorted(known)) or 'none'}", at=plan.pipeline.origin))


def _state_steps(
    plan: Plan, system: System, settings: Settings, kept: Kept, operators: Sequence[str]
) -> list[ResetStep]:
    made = [
        ResetStep("state", f"{', '.join(operators)} in {name}", partial(_clear, system, open_store, name, operators))
        for name, open_store in kept_stores(plan, system, settings)
    ]
    if isinstance(system, SendingSystem):
        # A store whose changelog was made anew is no copy of it, and is emptied when a run opens it.
        made += _removed(system, [changelog(plan.name, operator) for operator in operators], "changelog")
    for task, found in kept.items():
        left = _without(found, operators)
        if left != found:
            made.append(ResetStep("checkpoint", task, partial(_write, plan, system, task, checkpoints.encode(left))))
    return made


def _all_steps(plan: Plan, system: System, settings: Settings, kept: Kept) -> list[ResetStep]:
    made = [
        ResetStep("store", str(folder), partial(shutil.rmtree, folder, ignore_errors=True))
        for folder in pipeline_folders(plan, system, settings)
    ]
    between = [stream.name for stream in plan.streams if stream.kind == "intermediate"]
    if isinstance(system, SendingSystem):
        operators = {store.operator for store in plan.stores}.union(*(found.changelogs for found in kept.values()))
        made += _removed(system, [changelog(plan.name, operator) for operator in sorted(operators)], "changelog")
        made += _removed(system, between, "stream")
    else:
        made += [ResetStep("stream", name, partial(_empty, system, name)) for name in between if _holds(system, name)]
    return [*made, *(ResetStep("checkpoint", task, partial(_write, plan, system, task, b"")) for task in kept)]


def _holds(system: System, stream: str) -> bool:
    admin = system.admin()
    return admin.partitions(stream) is not None and admin.starts(stream) != admin.ends(stream)


def _empty(system: System, stream: str) -> None:
    """Let go of all that a stream holds."""
    with closing(system.producer()) as producer:
        producer.trim({(stream, partition): end for partition, end in enumerate(system.admin().ends(stream))})


def _removed(system: SendingSystem, streams: Sequence[str], kind: RemovedKind) -> list[ResetStep]:
    admin = system.admin()
    return [ResetStep(kind, name, partial(admin.remove, name)) for name in streams if admin.partitions(name)]


def _clear(system: System, open_store: OpenStore, task: str, operators: Sequence[str]) -> None:
    """Remove the state of operators from a store, and what its checkpoint says of it, at one stroke."""
    with closing(open_store()) as store:
        with closing(cast("PublishingSystem", system).producer()) as producer:
            publish_pending(producer, store)
        data = store.get(META, CHECKPOINT)
        left = [] if data is None else [checkpoints.encode(_without(checkpoints.decode(data, task), operators))]
        store.write(
            [
                *((operator.encode() + b"\0", None, None) for operator in operators),
                *((META, CHECKPOINT, one) for one in left),
            ]
        )


def _without(found: Checkpoint, operators: Sequence[str]) -> Checkpoint:
    """A checkpoint that knows nothing of the state of some operators."""
    kept = ("states", "changelogs", "lateness", "forgotten", "reached", "rung")
    left = {
        field: {name: value for name, value in getattr(found, field).items() if name not in operators} for field in kept
    }
    return structs.replace(found, **left)


def _write(plan: Plan, system: System, task: str, data: bytes) -> None:
    with closing(system.producer()) as producer:
        producer.begin().commit(plan.name, {task: data})
