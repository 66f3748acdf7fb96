"""How far behind its sources time is at each operator: the oracle's part that knows stages."""

import math
from collections.abc import Iterable, Mapping

from fluvial.dsl import Pipeline
from fluvial.dsl import operators as ops
from oracle.kinds import ORACLE_KINDS

Delays = dict[str, int]
"""Sources, each with how far behind its time is, in ms."""

Clocks = Mapping[tuple[str, int], float]
"""The time of every partition of a source that is not at its end."""


class Lines:
    """The lines of all operators: what time has come to where messages enter each."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._delays = _delays(pipeline)
        self._pipeline = pipeline

    def behind(self, operator: ops.Operator, reader: ops.Operator) -> int | None:
        """How far behind one operator's time another's is, if what the first emits may come to it over a border."""
        if not self._crosses(operator.id, reader):
            return None
        (delay,) = {self._delays[reader.id][id] - delay for id, delay in self._delays[operator.id].items()}
        return delay

    def _crosses(self, first: str, reader: ops.Operator, *, crossed: bool = False) -> bool:
        for source in map(self._pipeline.operator, reader.fed_by):
            over = crossed or isinstance(source, ops.Border)
            if (source.id == first and over) or self._crosses(first, source, crossed=over):
                return True
        return False

    def at(self, operator: ops.Operator, clocks: Clocks, idle: Clocks | None = None) -> float:
        """The watermark that an operator has by now, which goes back where an idle partition is back. What has no
        beginning or is at its end is not held back. `idle` are the partitions that are idle, each with how far its time
        has gone on: they hold nothing back, and where there are no others, time is where the furthest of them is."""
        delays, resting = self._delays[operator.id], idle or {}
        known = {partition: time for partition, time in clocks.items() if partition[0] in delays}
        held = [time - delays[partition[0]] for partition, time in known.items() if partition not in resting]
        gone_on = [resting[partition] - delays[partition[0]] for partition in known if partition in resting]
        return min(held) if held else max(gone_on, default=math.inf)


class Quiet:
    """Which partitions are idle, by the ms that have passed: those to which nothing has come for a while."""

    def __init__(self, patience: Mapping[tuple[str, int], int]) -> None:
        self._patience = patience
        self._since = dict.fromkeys(patience, 0)
        self._rested: dict[tuple[str, int], int] = {}
        self._now = 0

    def arrived(self, partition: tuple[str, int]) -> None:
        self._since[partition] = self._now
        self._rested.pop(partition, None)

    def tick(self) -> bool:
        """A ms has passed; whether it has made a partition idle, or for longer."""
        self._now += 1
        due = [partition for partition, wait in self._patience.items() if self._now - self._since[partition] >= wait]
        for partition in due:
            self._since[partition] = self._now
            self._rested[partition] = self._rested.get(partition, 0) + self._patience[partition]
        return bool(due)

    def idle(self, clocks: Clocks) -> Clocks:
        """The idle partitions, with how far the time of each has gone on with the clock."""
        return {
            partition: clocks[partition] + rested for partition, rested in self._rested.items() if partition in clocks
        }


def _delays(pipeline: Pipeline) -> dict[str, Delays]:
    """For each operator, the sources whose messages can reach its stage, and how far their time is held back."""
    known = {operator.id: operator for operator in pipeline.operators}
    stages = _stages(pipeline)
    borders = [operator for operator in pipeline.operators if isinstance(operator, ops.Border)]
    found: dict[str, Delays] = {}

    def of_stage(id: str) -> Delays:
        sources: list[Delays] = [{one: 0} for one in stages[id] if isinstance(known.get(one), ops.Source)]
        crossed = [found.get(border.id, {}) for border in borders if _beyond(border.id) in stages[id]]
        return _most([*sources, *crossed])

    def out_of(source: ops.Operator, reader: str) -> Delays:
        if isinstance(source, ops.Source | ops.Border):
            return of_stage(reader)
        held = ORACLE_KINDS[source].delay(source)
        return {id: delay + held for id, delay in found[source.id].items()}

    for _ in [None, *borders]:  # often enough for the longest chain of borders
        for operator in pipeline.operators:
            found[operator.id] = _most(out_of(known[source], operator.id) for source in operator.fed_by)
    return found


def _most(parts: Iterable[Delays]) -> Delays:
    together: Delays = {}
    for part in parts:
        for id, delay in part.items():
            together[id] = max(delay, together.get(id, 0))
    return together


def _stages(pipeline: Pipeline) -> dict[str, set[str]]:
    """For each operator, the members of its stage; of a border, of the stage before it.

    Operators share a stage, and its watermark, if messages pass between them without crossing a border.
    """
    borders = {operator.id for operator in pipeline.operators if isinstance(operator, ops.Border)}
    stages = {operator.id: {operator.id} for operator in pipeline.operators}
    far_sides = {id: {_beyond(id)} for id in borders}
    for operator in pipeline.operators:
        for source in operator.fed_by:
            joined = stages[operator.id] | (far_sides[source] if source in borders else stages[source])
            for members in (stages, far_sides):
                members.update({id: joined for id in members if members[id] & joined})
    return stages


def _beyond(border: str) -> str:
    return f"beyond {border}"
