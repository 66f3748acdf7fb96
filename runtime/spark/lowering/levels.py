"""Levels: the order in which a Spark query runs the stages of a plan.

Level 0 is one pass over the sources, before any shuffle. It runs the stages that keep no state and read sources alone,
and forwards the messages of other sources to the levels that read them. Each further level is a shuffle by key bucket
and one of Spark's stateful operators. It runs the stages whose inputs come from earlier levels.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ....planner.plan import Plan, PlannedStage


@dataclass(frozen=True, slots=True)
class Levels:
    """The level of each stage, the level at which each stream is read, and the number of each stream's producers.

    `forwarded` are the sources whose messages level 0 forwards unchanged. `clocked` says that the query depends on
    processing time. `ends_apart` says that the end of input has a batch of its own: before it, time has moved by all
    messages, which makes an operator emit what an end alone does not.
    """

    of_stage: Mapping[str, int]
    of_stream: Mapping[str, int]
    producers: Mapping[str, int]
    forwarded: frozenset[str]
    count: int
    clocked: bool
    ends_apart: bool

    def stages_at(self, level: int) -> list[str]:
        """The ids of the stages that run in one pass: 0 is the one before any shuffle."""
        return [stage for stage, stage_level in self.of_stage.items() if stage_level == level]


def most_tasks(plan: Plan, query: Levels, shuffled: int) -> int:
    """The most tasks that a pass of a query has, where one behind a shuffle has so many: level 0 has one for each
    partition of a source."""
    read = sum(plan.stream(name).partitions for name, level in query.of_stream.items() if level == 0)
    return max(1, read, shuffled)


def producer_number(plan: Plan, stage: PlannedStage, stream: str, partition: int) -> int:
    """The number of a source partition among all partitions that a level-0 stage reads. Each of them is a producer of
    the stage's output streams."""
    before = stage.inputs[: stage.inputs.index(stream)]
    return sum(plan.stream(name).partitions for name in before) + partition
