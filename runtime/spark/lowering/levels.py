"""Levels: the order in which a Spark query passes the stages of a plan.

Level 0 is one pass over the sources, before any shuffle: it runs the stages that keep no state and read sources alone,
and brings the messages of the other sources to the stages that need them. Each further level is a shuffle by key bucket
and a stateful operator of Spark's; it runs all stages whose inputs the levels before have made.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ....planner.plan import Plan, PlannedStage


@dataclass(frozen=True, slots=True)
class Levels:
    """Where each stage runs, which stream is read at which level, and how many producers tell each stream's time.

    `forwarded` are the sources that level 0 hands on as they are. `patience` tells of streams that level 0 writes or
    hands on after how many ms without messages each producer is idle, None where it never is. `clocked` says that some
    of it goes by the clock.
    """

    of_stage: Mapping[str, int]
    of_stream: Mapping[str, int]
    producers: Mapping[str, int]
    forwarded: frozenset[str]
    count: int
    patience: Mapping[str, tuple[int | None, ...]]
    clocked: bool

    def may_idle(self, stream: str, producer: int) -> bool:
        """Whether a producer of a stream may be idle."""
        known = self.patience.get(stream, ())
        # Buckets tell it themselves.
        return self.clocked and (not known or known[producer] is not None)

    def stages_at(self, level: int) -> list[str]:
        return [stage for stage, found in self.of_stage.items() if found == level]


def producer_number(plan: Plan, stage: PlannedStage, stream: str, partition: int) -> int:
    """The number of a source partition among all that a level-0 stage reads: each is a producer of what it writes."""
    before = stage.inputs[: stage.inputs.index(stream)]
    return sum(plan.stream(name).partitions for name in before) + partition
