"""Migration of checkpoints to a changed pipeline: finds the checkpoint of each task, although its stage may have had
another name before."""

from collections.abc import Collection, Iterable
from typing import Any

from msgspec import structs

from ....dsl.errors import PlanError
from ....dsl.validation import explain
from ....planner.grouping import first_numbers, not_broadcast
from ....planner.journals import journals_in
from ....planner.plan import Plan, PlannedStage
from ....planner.state_schema import StateSchema
from ....planner.stream_names import growth_of
from ....planner.task_assignment import TaskId
from ...kernel.time.bounds import START
from ...kernel.time.position import POSITION_BY_OPERATOR, POSITION_BY_STREAM, Position
from ...preflight.input_streams import descriptions_of, inputs_of, recreated
from ...systems.contract import System
from ...systems.provisioning import tables_by_stream
from ..task_setup import TaskSetup
from .checkpoint import OPERATOR_FACTS, STREAM_FACTS, Checkpoint, Checkpoints


def migrate_checkpoints(plan: Plan, setups: Iterable[TaskSetup], stored: Checkpoints) -> dict[str, Checkpoint]:
    """The checkpoint of each task, merged from the stored checkpoints of all task names; tasks without one are left
    out.

    A partition of a stream belongs to one task, whatever its stage is called. So the facts of a stream come from the
    task of the same number that has read furthest. The facts of an operator come from the task that had its state last,
    and the offset of a journal from the task that has it furthest: a rewind has set it.
    Facts of streams and operators that the plan no longer has are carried along: they may come back.
    """
    merged_by_task = {setup.name: _merged(plan, setup, stored) for setup in setups}
    return {name: merged for name, merged in merged_by_task.items() if not merged.blank}


def kept_states(plan: Plan, stored: Checkpoints) -> list[tuple[str, StateSchema]]:
    """The schemas of operators' state in the checkpoints of a pipeline, as (operator, schema), from the tasks that had
    the state last."""
    records: list[tuple[str, StateSchema]] = []
    for store in plan.stores:
        for holder in holders_of(store.operator, store.stage, stored):
            if store.operator in stored[holder].states:
                records.append((store.operator, stored[holder].states[store.operator]))
    return records


def holders_of(operator: str, stage: str, stored: Checkpoints) -> list[str]:
    """The tasks that had the state of an operator last, by the number of the task; `stage` has the operator now."""
    numbers = sorted({number_of(name) for name in stored})
    holders = (holder_of(operator, f"{stage}/{number}", stored) for number in numbers)
    return [holder for holder in holders if holder is not None]


def read_before(stored: Checkpoints) -> set[str]:
    """The streams that a pipeline has ever read, in any partition."""
    return {growth_of(name)[0] for checkpoint in stored.values() for name in checkpoint.offsets}


def refuse_recreated(plan: Plan, system: System, stored: Checkpoints, reset: str) -> None:
    """Raise SystemProblem if a checkpoint has offsets of a stream that was deleted since, even if it was created again.

    A checkpoint without ids of streams, of an earlier version, is taken for one of the present streams. `reset` is the
    command that resets the pipeline."""
    known = {(stream, id) for checkpoint in stored.values() for stream, id in checkpoint.identities.items()}
    facts = descriptions_of(system, inputs_of(plan)) if known else {}
    for stream, id in sorted(known):
        now = facts.get(stream)
        if stream in inputs_of(plan) and (now is None or now.id not in ("", id)):
            raise recreated(plan, stream, system.url, reset)


def refuse_other_grouping(plan: Plan, stored: Checkpoints, reset: str) -> None:
    """Raise PlanError if a task has read a partition that a task of another number is to read: the partitions of its
    stage are grouped otherwise now, or its inputs have another order. `reset` is the command that resets the pipeline.

    So it is where tasks are split by key, write to another stage, and get another number: by that the next stage knows
    which of them it has heard of."""
    readers = {name: stage for stage in plan.stages for name in not_broadcast(plan.pipeline, stage.inputs)}
    numbered = {stage.id: first_numbers(plan, stage.id) for stage in plan.stages}
    read = {one.input.stream for one in stored.values() if one.input is not None}
    for task, checkpoint in stored.items():
        only, number = checkpoint.input, TaskId.parse(task).number
        for stream in {growth_of(name)[0] for name in checkpoint.offsets} & readers.keys():
            stage = readers[stream]
            partition = number if only is None else only.partition
            known = only is None or only.stream == stream
            if not known or partition + numbered[stage.id][stream] != number:
                raise _grouped_otherwise(plan, stage, task, stream, reset)
        if only is not None and only.stream in readers:
            _refuse_more_tasks(plan, readers[only.stream], task, read, reset)


def _refuse_more_tasks(plan: Plan, stage: PlannedStage, task: str, read: Collection[str], reset: str) -> None:
    own = not_broadcast(plan.pipeline, stage.inputs)
    split = TaskId.parse(task).elasticity > 1
    between = any(plan.stream(name).kind == "intermediate" for name in stage.outputs)
    if split and between and (missing := [name for name in own if name not in read]):
        raise _grouped_otherwise(plan, stage, task, missing[0], reset)


def _grouped_otherwise(plan: Plan, stage: PlannedStage, task: str, stream: str, reset: str) -> PlanError:
    wrong = f"the tasks of stage {stage.name!r}, grouped by {stage.group_by}, are to read other partitions than their "
    wrong += f"offsets are of, or with other numbers, as of {stream!r} by task {task!r}: its inputs have changed, or "
    wrong += "its grouping"
    remedy = "go back to the inputs and the group_by of before, with new inputs behind them; or let the stream be read "
    remedy += f"from its start, on Kafka by {reset} --stream {stream}; or start over: {reset} --all"
    expected = "tasks that read the partitions that they have read before"
    return PlanError(explain(wrong, expected, remedy, plan.pipeline.origin))


def number_of(task: str) -> str:
    """The number of a task within its stage, with its key bucket; it stays when the stage is renamed."""
    return task.rpartition("/")[2]


def holder_of(operator: str, task: str, stored: Checkpoints) -> str | None:
    """The task that had the state last which an operator needs in `task`; None if there is no such state."""
    names = [name for name, one in stored.items() if number_of(name) == number_of(task) and _knows(one, operator)]
    holder = task if task in names else next(iter(names), None)
    for name in names:
        if holder is not None and _is_later(stored[name], stored[holder], operator):
            holder = name
    return holder


def _is_later(one: Checkpoint, other: Checkpoint, operator: str) -> bool:
    """Whether a task had an operator's state later than another one. Both have facts of it only where state has
    changelogs, or after an earlier version that did not move state."""
    ends = one.changelogs.get(operator, 0) - other.changelogs.get(operator, 0)
    read = sum(one.offsets[name] - other.offsets[name] for name in one.offsets.keys() & other.offsets.keys())
    return (ends or read) > 0


def _knows(checkpoint: Checkpoint, operator: str) -> bool:
    return operator in checkpoint.states or operator in checkpoint.changelogs


def _merged(plan: Plan, setup: TaskSetup, stored: Checkpoints) -> Checkpoint:
    own, inputs = stored.get(setup.name, Checkpoint()), plan.stage(setup.stage).inputs
    all_names = [one for name, one in stored.items() if number_of(name) == number_of(setup.name)]
    merged = without(own, {store.operator for store in plan.stores if store.stage != setup.stage})
    holders = {operator: holder_of(operator, setup.name, stored) for operator in setup.changelogs}
    for operator, holder in holders.items():
        if holder is not None:
            merged = with_operator(merged, operator, stored[holder])
    tables = tables_by_stream(plan, setup.changelogs)
    for name in _known_inputs(inputs, (own, *all_names)):
        stream, _ = growth_of(name)
        if stream in tables:
            holder = holders[tables[stream]]
            furthest = _as_read_for(tables[stream], stream, Checkpoint() if holder is None else stored[holder])
        else:
            furthest = max((own, *all_names), key=lambda one: one.offsets.get(name, -1))
        merged = _with_stream(merged, name, furthest)
    clocks = (one.position.clock for one in (all_names if own.blank else [own]))
    position = structs.replace(merged.position, clock=max(clocks, default=START))
    journals = merged.journals | _journals(journals_in(plan, setup.stage), all_names)
    return structs.replace(merged, position=position, journals=journals)


def _journals(operators: Iterable[str], checkpoints: Collection[Checkpoint]) -> dict[str, int]:
    """The furthest offset of the journal of each operator that checkpoints know."""
    known = {id: [one.journals[id] for one in checkpoints if id in one.journals] for id in operators}
    return {id: max(offsets) for id, offsets in known.items() if offsets}


def _known_inputs(streams: Collection[str], checkpoints: Iterable[Checkpoint]) -> list[str]:
    """These streams, and the growths of them that checkpoints know."""
    known = dict.fromkeys(name for one in checkpoints for name in one.offsets if growth_of(name)[0] in streams)
    return [*dict.fromkeys([*streams, *known])]


def _as_read_for(table: str, stream: str, holder: Checkpoint) -> Checkpoint:
    """The facts of a table's stream at the offset up to which the table has read it: other operators may have read on
    without the table. A table without rows reads the whole stream."""
    offset = (holder.tables or {}).get(table)
    if offset is None:
        return Checkpoint()
    return holder if holder.offsets.get(stream) == offset else Checkpoint(offsets={stream: offset})


def with_operator(checkpoint: Checkpoint, operator: str, holder: Checkpoint) -> Checkpoint:
    """A checkpoint with the facts of an operator from another checkpoint."""
    return _with_facts(checkpoint, holder, operator, OPERATOR_FACTS, POSITION_BY_OPERATOR)


def without(checkpoint: Checkpoint, operators: Collection[str]) -> Checkpoint:
    """A checkpoint without the facts of some operators."""
    for operator in operators:
        checkpoint = with_operator(checkpoint, operator, Checkpoint())
    return checkpoint


def _with_stream(checkpoint: Checkpoint, stream: str, furthest: Checkpoint) -> Checkpoint:
    return _with_facts(checkpoint, furthest, stream, STREAM_FACTS, POSITION_BY_STREAM)


def _with_facts(
    checkpoint: Checkpoint, source: Checkpoint, name: str, facts: Iterable[str], of_position: Iterable[str]
) -> Checkpoint:
    """A checkpoint with the facts of a stream or operator, in its position too, from another checkpoint."""
    if source is checkpoint:
        return checkpoint
    position = structs.replace(
        checkpoint.position, **_facts_of(name, of_position, checkpoint.position, source.position)
    )
    return structs.replace(checkpoint, position=position, **_facts_of(name, facts, checkpoint, source))


def _facts_of(
    name: str, facts: Iterable[str], record: Checkpoint | Position, source: Checkpoint | Position
) -> dict[str, Any]:
    """The facts of `record` that change if those of a stream or operator are taken from `source`."""
    changed: dict[str, Any] = {}
    for fact in facts:
        before, now = getattr(record, fact) or {}, getattr(source, fact) or {}
        if name in before or name in now:
            rest = {other: value for other, value in before.items() if other != name}
            changed[fact] = {**rest, name: now[name]} if name in now else rest
    return changed
