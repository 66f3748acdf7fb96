"""Routes the outputs of a task to partitions of streams, and to sinks."""

from collections.abc import Mapping
from typing import Any

from ...dsl.message import Record
from ...planner.plan import Plan
from ..output_routes import OutputRoutes
from ..systems.partitioner import partition_of
from .commit.contract import StagedOutputs


class Router:
    """Puts the outputs of one task into its `StagedOutputs` and its sinks, and counts them by stream or sink.

    `unflushed` says whether there were outputs since the last `flush`, and `in_sinks` counts those that went to sinks.
    """

    def __init__(self, plan: Plan, stage: str, task: int) -> None:
        self._routes = OutputRoutes(plan, stage)
        self._task = task
        self.unflushed = False
        self.in_sinks = 0

    @property
    def written(self) -> dict[str, int]:
        """How many messages were written, by stream or by sink."""
        return self._routes.written

    def route(self, operator: str, outputs: list[Any], staged_outputs: StagedOutputs) -> None:
        """Stage records for the next commit; a sink has its messages at once, before the commit, and may have them
        again after a failure. Raises SystemProblem where a sink refuses them."""
        self.unflushed = True
        route = self._routes[operator]
        self._routes.count(route, len(outputs))
        if route.sink is not None:
            self.in_sinks += len(outputs)
            route.sink.write(outputs)
        elif route.to_all:
            for partition in range(route.partitions):
                staged_outputs.append(route.name, partition, outputs)
        else:
            keyless = route.keyless_partition(self._task)
            for partition, records in _split(outputs, route.partitions, keyless).items():
                staged_outputs.append(route.name, partition, records)

    def flush(self) -> None:
        """Flush the sinks: return once they have stored all their values."""
        for sink in self._routes.sinks:
            sink.flush()
        self.unflushed = False
        self.in_sinks = 0


def _split(records: list[Record], partitions: int, keyless: int) -> Mapping[int, list[Record]]:
    # Keys need not be hashed, which takes most of the time of this function.
    if partitions == 1:
        return {0: records}
    by_partition: list[list[Record]] = [[] for _ in range(partitions)]
    for record in records:
        key = record[0]
        by_partition[keyless if key is None else partition_of(key, partitions)].append(record)
    return {partition: part for partition, part in enumerate(by_partition) if part}
