"""Where tasks go on whose pipeline was changed: a stage, and so its tasks, may have had another name."""

from collections.abc import Collection, Iterable
from typing import Any

from msgspec import structs

from ....planner.plan import Plan
from ....planner.state_schema import StateSchema
from ...kernel.time.bounds import START
from ...kernel.time.position import POSITION_BY_OPERATOR, POSITION_BY_STREAM, Position
from ...preflight.input_streams import descriptions_of, inputs_of, recreated
from ...systems.contract import System
from ...systems.provisioning import tables_by_stream
from ..task_setup import TaskSetup
from .checkpoint import OPERATOR_FACTS, STREAM_FACTS, Checkpoint, Checkpoints


def migrate_checkpoints(plan: Plan, setups: Iterable[TaskSetup], stored: Checkpoints) -> dict[str, Checkpoint]:
    """The checkpoint of each task that has one, out of all that were kept under any name.

    A stream's partition belongs to one task, whatever it is called, and offsets grow: what is known of it comes from
    the task of that number that has read most of it. What is known of an operator comes from the one that has kept its
    state last. What is known of other streams, and of operators that are gone, is carried along: both may come back.
    """
    merged_by_task = {setup.name: _merged(plan, setup, stored) for setup in setups}
    return {name: merged for name, merged in merged_by_task.items() if not merged.blank}


def kept_states(plan: Plan, stored: Checkpoints) -> list[tuple[str, StateSchema]]:
    """What gives the state of operators its meaning, as (operator, record), out of all checkpoints of a pipeline: those
    of the tasks that have kept it last."""
    records: list[tuple[str, StateSchema]] = []
    for store in plan.stores:
        for holder in holders_of(store.operator, store.stage, stored):
            if store.operator in stored[holder].states:
                records.append((store.operator, stored[holder].states[store.operator]))
    return records


def holders_of(operator: str, stage: str, stored: Checkpoints) -> list[str]:
    """The tasks that have kept the state last of an operator which is in a stage now."""
    numbers = sorted({number_of(name) for name in stored})
    holders = (holder_of(operator, f"{stage}/{number}", stored) for number in numbers)
    return [holder for holder in holders if holder is not None]


def read_before(stored: Checkpoints) -> set[str]:
    """The streams that a pipeline has read at some time, in any partition."""
    return {stream for checkpoint in stored.values() for stream in checkpoint.offsets}


def refuse_recreated(plan: Plan, system: System, stored: Checkpoints, reset: str) -> None:
    """Raise SystemProblem where a checkpoint points into a stream that was deleted since, whether it was made anew or
    not. A checkpoint of a version that kept no ids is taken for one of the streams that there are. `reset` is the
    command that resets the pipeline."""
    known = {(stream, id) for checkpoint in stored.values() for stream, id in checkpoint.identities.items()}
    facts = descriptions_of(system, inputs_of(plan)) if known else {}
    for stream, id in sorted(known):
        now = facts.get(stream)
        if stream in inputs_of(plan) and (now is None or now.id not in ("", id)):
            raise recreated(plan, stream, system.url, reset)


def number_of(task: str) -> str:
    """The number of a task within its stage, which names of stages do not change."""
    return task.rpartition("/")[2]


def holder_of(operator: str, task: str, stored: Checkpoints) -> str | None:
    """Which task has kept the state last that an operator is to have in `task`; None where none has."""
    names = [name for name, one in stored.items() if number_of(name) == number_of(task) and _knows(one, operator)]
    holder = task if task in names else next(iter(names), None)
    for name in names:
        if holder is not None and _is_later(stored[name], stored[holder], operator):
            holder = name
    return holder


def _is_later(one: Checkpoint, other: Checkpoint, operator: str) -> bool:
    """Whether a task has kept an operator's state later than another. Both know it only where there are changelogs,
    or where a version has left it that did not move state."""
    ends = one.changelogs.get(operator, 0) - other.changelogs.get(operator, 0)
    read = sum(one.offsets[name] - other.offsets[name] for name in one.offsets.keys() & other.offsets.keys())
    return (ends or read) > 0


def _knows(checkpoint: Checkpoint, operator: str) -> bool:
    return operator in checkpoint.states or operator in checkpoint.changelogs


def _merged(plan: Plan, setup: TaskSetup, stored: Checkpoints) -> Checkpoint:
    own, inputs = stored.get(setup.name, Checkpoint()), plan.stage(setup.stage).inputs
    all_names = [one for name, one in stored.items() if number_of(name) == str(setup.number)]
    merged = without(own, {store.operator for store in plan.stores if store.stage != setup.stage})
    holders = {operator: holder_of(operator, setup.name, stored) for operator in setup.changelogs}
    for operator, holder in holders.items():
        if holder is not None:
            merged = with_operator(merged, operator, stored[holder])
    tables = tables_by_stream(plan, setup.changelogs)
    for stream in inputs:
        if stream in tables:
            holder = holders[tables[stream]]
            furthest = _as_read_for(tables[stream], stream, Checkpoint() if holder is None else stored[holder])
        else:
            furthest = max((own, *all_names), key=lambda one: one.offsets.get(stream, -1))
        merged = _with_stream(merged, stream, furthest)
    clocks = (one.position.clock for one in (all_names if own.blank else [own]))
    return structs.replace(merged, position=structs.replace(merged.position, clock=max(clocks, default=START)))


def _as_read_for(table: str, stream: str, holder: Checkpoint) -> Checkpoint:
    """What is known of a table's stream as far as the table has taken it in: others may have read on without it. One
    that has kept nothing yet reads all rows, whoever has read them before."""
    offset = (holder.tables or {}).get(table)
    if offset is None:
        return Checkpoint()
    return holder if holder.offsets.get(stream) == offset else Checkpoint(offsets={stream: offset})


def with_operator(checkpoint: Checkpoint, operator: str, holder: Checkpoint) -> Checkpoint:
    """A checkpoint that knows of an operator what its holder knows."""
    return _with_facts(checkpoint, holder, operator, OPERATOR_FACTS, POSITION_BY_OPERATOR)


def without(checkpoint: Checkpoint, operators: Collection[str]) -> Checkpoint:
    """A checkpoint that knows nothing of the state of some operators."""
    for operator in operators:
        checkpoint = with_operator(checkpoint, operator, Checkpoint())
    return checkpoint


def _with_stream(checkpoint: Checkpoint, stream: str, furthest: Checkpoint) -> Checkpoint:
    return _with_facts(checkpoint, furthest, stream, STREAM_FACTS, POSITION_BY_STREAM)


def _with_facts(
    checkpoint: Checkpoint, source: Checkpoint, name: str, facts: Iterable[str], of_position: Iterable[str]
) -> Checkpoint:
    """A checkpoint whose facts of a name, and those of its position, are the ones of another checkpoint."""
    if source is checkpoint:
        return checkpoint
    position = structs.replace(
        checkpoint.position, **_facts_of(name, of_position, checkpoint.position, source.position)
    )
    return structs.replace(checkpoint, position=position, **_facts_of(name, facts, checkpoint, source))


def _facts_of(
    name: str, facts: Iterable[str], record: Checkpoint | Position, source: Checkpoint | Position
) -> dict[str, Any]:
    """The facts of a record, each with what `source` knows of a name; those that know nothing of it are left out."""
    changed: dict[str, Any] = {}
    for fact in facts:
        before, now = getattr(record, fact) or {}, getattr(source, fact) or {}
        if name in before or name in now:
            rest = {other: value for other, value in before.items() if other != name}
            changed[fact] = {**rest, name: now[name]} if name in now else rest
    return changed
