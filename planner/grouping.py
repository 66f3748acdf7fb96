"""How the partitions that a stage reads are grouped into its tasks."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ..dsl import operators as ops
from ..dsl.errors import PlanError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain
from .kinds import PLANNER_KINDS
from .settings import Grouping, Settings
from .stages import inputs_of
from .stream_names import intermediate

if TYPE_CHECKING:
    from .plan import Plan

BY_PARTITION: Grouping = "partition"
BY_STREAM_PARTITION: Grouping = "stream-partition"


class OnlyInput(Struct, frozen=True, array_like=True):
    """What a task reads whose stage is grouped by stream and partition: a partition of one stream, of so many over
    which that is spread."""

    stream: str
    partition: int
    spread: int


def grouping_of(pipeline: Pipeline, stage: Sequence[ops.Operator], settings: Settings) -> Grouping:
    """How a stage is grouped: as the settings say where its messages need not meet. Grouping by stream and partition is
    none where the stage reads but one stream."""
    inputs = inputs_of(pipeline, stage)
    asked = settings.grouping_of(inputs[0])
    apart = len(not_broadcast(pipeline, inputs)) > 1 and why_together(pipeline, stage) is None
    return asked if apart else BY_PARTITION


def why_together(pipeline: Pipeline, stage: Sequence[ops.Operator]) -> str | None:
    """Why the partitions of one number have to be in one task; None if they need not be."""
    first = {source.stream for source in pipeline.sources if source.bootstrap}
    for operator in stage:
        if operator.is_table or operator.uses_table is not None:
            return f"{operator.label} needs the rows of a table in the task of its messages"
        if PLANNER_KINDS[operator].state is not None:
            return f"{operator.label} keeps state by key, of which messages of several streams may be"
    early = [operator.label for operator in stage if operator.reads in first]
    return f"{early[0]} is to be read before the other streams of its task" if early else None


def not_broadcast(pipeline: Pipeline, inputs: Iterable[str]) -> list[str]:
    """The inputs of which each partition has messages of its own."""
    whole = {intermediate(pipeline.name, border.id) for border in pipeline.borders if border.to_all}
    return [name for name in inputs if name not in whole]


def tasks_for(grouping: Grouping, sizes: Iterable[int]) -> int:
    """How many numbers the tasks of a stage have that reads streams with so many partitions, broadcasts left out.

    >>> tasks_for("partition", [3, 2]), tasks_for("stream-partition", [3, 2])
    (3, 5)
    """
    return sum(sizes) if grouping == BY_STREAM_PARTITION else max(sizes, default=1)


def first_numbers(plan: "Plan", stage: str) -> Mapping[str, int]:
    """The number of the task that reads partition 0 of each input of a stage. Grouped by stream and partition the tasks
    of one input follow those of another; all tasks read what is broadcast."""
    planned = plan.stage(stage)
    firsts, following = dict.fromkeys(planned.inputs, 0), 0
    for name in not_broadcast(plan.pipeline, planned.inputs) if planned.group_by == BY_STREAM_PARTITION else ():
        firsts[name] = following
        following += plan.stream(name).spread
    return firsts


def only_input(plan: "Plan", stage: str, number: int) -> OnlyInput | None:
    """What the task of a number reads besides broadcasts; None where the stage is grouped by partition."""
    planned = plan.stage(stage)
    if planned.group_by == BY_PARTITION:
        return None
    firsts = first_numbers(plan, stage)
    own = [plan.stream(name) for name in not_broadcast(plan.pipeline, planned.inputs)]
    read = (
        OnlyInput(stream.name, number - firsts[stream.name], stream.spread)
        for stream in own
        if stream.partition_of(number - firsts[stream.name], 0) is not None
    )
    return next(read, None)


def check_grouping(pipeline: Pipeline, stages: Sequence[Sequence[ops.Operator]], settings: Settings) -> None:
    """Refuse a grouping of stages by name that need another; the plan has all that are named."""
    named = settings.group_by if isinstance(settings.group_by, Mapping) else {}
    by_id = {inputs_of(pipeline, stage)[0]: stage for stage in stages}
    for id, asked in named.items():
        reason = None if asked == BY_PARTITION else why_together(pipeline, by_id[id])
        if reason is not None:
            wrong = f"Settings: group_by={asked!r} for stage {id!r}, and {reason}"
            remedy = f"leave the stage out of group_by; more tasks than partitions come of elasticity={{{id!r}: 2}}"
            raise PlanError(explain(wrong, "a stage without joins, tables and state", remedy, pipeline.origin))
