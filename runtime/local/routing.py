"""Where a task's outputs go: which stream, which partition."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...dsl.message import Message, Record
from ...dsl.sink import Sink
from ...planner.plan import Plan
from ..kernel.stage import DEAD_LETTERS
from ..systems.partitioner import partition_of
from .commits import Outbox


class Router:
    """The outputs of one task, on their way into its outbox and its sinks. Counts what it passes, by stream.

    `unflushed` says that something has passed since the last `flush`."""

    def __init__(self, plan: Plan, stage: str, task: int) -> None:
        members = [plan.operator(id) for id in plan.stage(stage).operators]
        self._streams = {op.id: (op.writes[0], plan.stream(op.writes[0]).partitions) for op in members if op.writes}
        letters = next((stream for stream in plan.streams if stream.kind == "dead-letters"), None)
        if letters is not None:
            self._streams[DEAD_LETTERS] = (letters.name, letters.partitions)
        # Messages without key keep their task's order; a border takes them all to its first partition.
        self._keyless = {
            id: 0 if plan.stream(name).kind == "intermediate" else task for id, (name, _) in self._streams.items()
        }
        own = {op.id for op in members}
        self.sinks: dict[str, Sink[Any]] = {op.id: op.sink for op in plan.pipeline.sinks if op.id in own}
        self._to_all = {border.id for border in plan.pipeline.borders if border.to_all and border.id in own}
        self.written: dict[str, int] = {}
        self.unflushed = False

    def route(self, id: str, made: list[Any], outbox: Outbox) -> None:
        """Pass on what an operator made."""
        self.unflushed = True
        if id in self.sinks:
            self._count(id, len(made))
            messages: Sequence[Message[Any]] = made
            self.sinks[id].write(messages)
            return
        stream, partitions = self._streams[id]
        self._count(stream, len(made))
        if id in self._to_all:
            for partition in range(partitions):
                outbox.append(stream, partition, made)
            return
        for partition, records in self._split(made, partitions, self._keyless[id] % partitions).items():
            outbox.append(stream, partition, records)

    def flush(self) -> None:
        """Return once all that sinks were given is safe."""
        for sink in self.sinks.values():
            sink.flush()
        self.unflushed = False

    def _count(self, name: str, messages: int) -> None:
        self.written[name] = self.written.get(name, 0) + messages

    @staticmethod
    def _split(records: list[Record], partitions: int, keyless: int) -> Mapping[int, list[Record]]:
        if partitions == 1:
            return {0: records}
        found: list[list[Record]] = [[] for _ in range(partitions)]
        for record in records:
            key = record[0]
            found[keyless if key is None else partition_of(key, partitions)].append(record)
        return {partition: part for partition, part in enumerate(found) if part}
