"""The checkpoints of tasks whose elasticity is changed: split over more key buckets, or merged into fewer.

A split gives each new task the checkpoint of the old one. Tasks are merged where they have come equally far, so that
the merged one neither counts a message twice nor fires a window twice: see `apart`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import structs

from ....dsl.errors import PlanError
from ....dsl.validation import explain
from ....planner.plan import Plan, PlannedStage
from ....planner.stream_names import growth_of
from ....planner.task_assignment import TaskId, tasks_in
from ...kernel.time.bounds import START
from ...kernel.time.position import Position
from .checkpoint import Checkpoint, Checkpoints, Hold


def plan_before(plan: Plan, stored: Checkpoints) -> Plan:
    """The plan with the elasticity that the stored checkpoints have: the plan itself if that is the same.

    Raises PlanError where a stage has another name now, or an operator is in another stage, and the elasticity is not
    the same: state is moved by one change at a time."""
    return with_elasticity(plan, {stage.id: _elasticity_in(plan, stage, stored) for stage in plan.stages})


def with_elasticity(plan: Plan, elasticity: Mapping[str, int]) -> Plan:
    """The plan with this elasticity of its stages, by id: the plan itself if that is the same."""
    stages = tuple(structs.replace(stage, elasticity=elasticity[stage.id]) for stage in plan.stages)
    return plan if stages == plan.stages else replace(plan, stages=stages)


def _elasticity_in(plan: Plan, stage: PlannedStage, stored: Checkpoints) -> int:
    """The elasticity of a stage's tasks in their checkpoints."""
    tasks = {TaskId.parse(name): one for name, one in stored.items()}
    own = {task: one for task, one in tasks.items() if task.stage == stage.id}
    before = next((task.elasticity for task in own), stage.elasticity)
    stateful = [store.operator for store in plan.stores if store.stage == stage.id]
    absent = [id for id in stateful if not any(id in one.states for one in own.values())]
    for task, one in tasks.items():
        moves = any(id in one.states for id in absent) or (not own and bool(one.offsets.keys() & {*stage.inputs}))
        if moves and {task.elasticity, before} != {stage.elasticity}:
            raise _two_changes(plan, stage, task)
    return before


def _two_changes(plan: Plan, stage: PlannedStage, task: TaskId) -> PlanError:
    wrong = f"stage {stage.name!r} goes on from the tasks of stage {task.stage!r}, and is to have another elasticity"
    wrong += f": {stage.elasticity} in place of {task.elasticity}"
    expected = "one change at a time: of where operators are, or of the elasticity"
    remedy = "run it once with the elasticity of before, for example to catch up with its inputs, and change it then"
    return PlanError(explain(wrong, expected, remedy, plan.pipeline.origin))


def apart(before: Plan, now: Plan, stored: Checkpoints) -> bool:
    """Whether tasks that are to be merged have not come equally far: some have read further than others, have fired by
    event time what others have not, or are within a firing."""
    return _differ(before, now, stored, _progress)


def ended_apart(before: Plan, now: Plan, stored: Checkpoints) -> bool:
    """Whether some of the tasks that are to be merged may have reached an end of input that others have not. Those
    without windows there look as if they had not."""
    return _differ(before, now, stored, _ends)


_ProgressOf = Callable[[Plan, PlannedStage, Checkpoint], object]


def _differ(before: Plan, now: Plan, stored: Checkpoints, progress_of: _ProgressOf) -> bool:
    for stage in merged_stages(before, now):
        for tasks in _by_number(stage):
            known = [stored.get(task.name) for task in tasks]
            progress = [None if one is None else progress_of(before, stage, one) for one in known]
            if any(one != progress[0] for one in progress):
                return True
    return False


def fired_alike(plan: Plan, stage: PlannedStage, checkpoints: Sequence[Checkpoint]) -> bool:
    """Whether tasks of a stage that have read equally far have fired the same by event time, and none is within a
    firing."""
    fired = [_fired(plan, stage, one) for one in checkpoints]
    return all(one == fired[0] for one in fired)


def _progress(plan: Plan, stage: PlannedStage, checkpoint: Checkpoint) -> object:
    """How far a task has come."""
    read = {name: at for name, at in checkpoint.offsets.items() if growth_of(name)[0] in stage.inputs}
    return read, _fired(plan, stage, checkpoint)


def _fired(plan: Plan, stage: PlannedStage, checkpoint: Checkpoint) -> object:
    """What a task has fired. What is within a firing equals nothing else, not even itself."""
    position = checkpoint.position
    # By processing time, what has fired is gone: it is no matter whose clock was later.
    timed = [id for id in stage.operators if plan.pipeline.operator(id).time_domain != "processing"]
    firing = float("nan") if position.cursors else None
    return [position.reached.get(id) for id in timed], position.idle, firing


def _ends(plan: Plan, stage: PlannedStage, checkpoint: Checkpoint) -> object:
    """The ends of windows that have fired at an end of input, and not by time since."""
    del plan, stage
    fired, reached = checkpoint.position.fired_at_end, checkpoint.position.reached
    return {id: end for id, end in fired.items() if end > reached.get(id, START)}


def changed_stages(before: Plan, now: Plan) -> list[tuple[PlannedStage, PlannedStage]]:
    """The stages whose elasticity changes, as they were and as they are to be."""
    return [(old, new) for old, new in zip(before.stages, now.stages, strict=True) if old.elasticity != new.elasticity]


def merged_stages(before: Plan, now: Plan) -> Iterator[PlannedStage]:
    """The stages, as they were before, that are to have fewer key buckets."""
    return (old for old, new in changed_stages(before, now) if old.elasticity > new.elasticity)


def _by_number(stage: PlannedStage) -> Iterator[list[TaskId]]:
    tasks = tasks_in(stage)
    return (tasks[at : at + stage.elasticity] for at in range(0, len(tasks), stage.elasticity))


def rescaled_numbers(before: Plan, now: Plan) -> Iterator[tuple[list[TaskId], list[TaskId]]]:
    """The tasks of each number of the stages whose elasticity changes, before and now."""
    for old, new in changed_stages(before, now):
        yield from zip(_by_number(old), _by_number(new), strict=True)


def rescaled(old: Sequence[TaskId], new: Sequence[TaskId], stored: Checkpoints) -> dict[TaskId, Checkpoint]:
    """The checkpoints of the tasks of a number, from those that it had. A task that none of them leads to has none."""
    checkpoints: dict[TaskId, Checkpoint] = {}
    for task in new:
        sources = [stored[source.name] for source in old if source.shares_keys(task) and source.name in stored]
        if sources:
            checkpoints[task] = sources[0] if len(sources) == 1 else _merge(sources)
            checkpoints[task] = structs.replace(checkpoints[task], number=checkpoints[task].number + 1).within("")
    return checkpoints


def _merge(sources: Sequence[Checkpoint]) -> Checkpoint:
    """One checkpoint of tasks that have come equally far."""
    return Checkpoint(
        offsets=_united(min, [one.offsets for one in sources]),
        position=_merged_position([one.position for one in sources]),
        changelogs=_united(max, [one.changelogs for one in sources]),
        states=_united(_first, [one.states for one in sources]),
        atomic=all(one.atomic for one in sources),
        number=max(one.number for one in sources),
        identities=_united(_first, [one.identities for one in sources]),
        tables=_united(min, [one.tables or {} for one in sources]),
        borders=_united(_latest_schema, [one.borders for one in sources]),
        bootstrapping=any(one.bootstrapping for one in sources),
        holds=_united(_longest_hold, [one.holds for one in sources]),
        journals=_united(min, [one.journals for one in sources]),
        input=sources[0].input,  # they are of one number
    )


def _merged_position(positions: Sequence[Position]) -> Position:
    """One position of tasks that have come equally far. They may differ in what follows the clock, and in how many
    commits have changed the rows of a table; the least is what holds for the keys of all."""
    joined: dict[str, Any] = {
        name: _united(how, [getattr(one, name) for one in positions]) for name, how in _MERGED.items()
    }
    idle = {
        stream: sorted(set.intersection(*({*one.idle.get(stream, ())} for one in positions)))
        for stream in positions[0].idle
    }
    return Position(
        **joined,
        idle={stream: producers for stream, producers in idle.items() if producers},
        clock=min(one.clock for one in positions),
    )


def _united(how: Callable[..., Any], facts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One mapping of several: the values of each name, put together."""
    names = dict.fromkeys(name for one in facts for name in one)
    return {name: how([one[name] for one in facts if name in one]) for name in names}


def _first(values: Sequence[Any]) -> Any:
    return values[0]


def _latest_schema(values: Sequence[Any]) -> Any:
    return max(values, key=lambda schema: schema.number)


def _longest_hold(holds: Sequence[Hold]) -> Hold:
    ends = [one.ends for one in holds]
    # What one of them does not know yet is asked for again.
    return Hold(max(one.until for one in holds), _united(max, ends) if all(ends) else {})


def _least_of_each(marks: Sequence[Mapping[int, int]]) -> dict[int, int]:
    """The least watermark of each producer that all tasks have heard of."""
    known = set.intersection(*({*one} for one in marks))
    return {producer: min(one[producer] for one in marks) for producer in sorted(known)}


_MERGED: Mapping[str, Callable[..., Any]] = {
    "highs": max,
    "producers": _least_of_each,
    "rested": _least_of_each,
    "out_of_order": _first,
    "quiet_since": max,
    "lateness": _first,
    "forgotten": max,
    "reached": min,
    "clock_fired": min,
    # A joined table is up to date where it is built from as many versions as its tables have: both are sums.
    "versions": sum,
    "built": sum,
    "fired_at_end": max,
    "met": min,
    "writers": _first,
}
