"""The partitions that a container reads, each once for all tasks that process key buckets of it."""

import time
from collections.abc import Callable, Mapping, Sequence

from ...planner.plan import Plan
from ...planner.task_assignment import tasks_in
from ..kernel.key_buckets import key_buckets
from ..systems.contract import RecordBatch, StreamPartition
from .checkpoints.checkpoint import Checkpoints
from .observe.input_counts import InputCounts
from .task import LocalTask


class ContainerInputs:
    """Reads for the tasks of a container, and tells which records none of them reads again.

    A partition is read from the least offset of its tasks on: each passes over what it has had before. So all of them
    have the same messages in memory, and the slowest holds the reading of the partition back, never another's commits.
    """

    def __init__(
        self,
        plan: Plan,
        tasks: Sequence[LocalTask],
        clock: Callable[[], float] = time.monotonic,
        counts: InputCounts | None = None,
    ) -> None:
        """`counts` counts what is read, also where the tasks of the container change."""
        self.counts = counts or InputCounts()
        self.counts.follow(tasks)
        self._plan = plan
        self._clock = clock
        self._tasks: dict[StreamPartition, list[LocalTask]] = {}
        for task in tasks:
            for partition in task.queues.positions:
                self._tasks.setdefault(partition, []).append(task)
        self._elsewhere = {partition: self._others(own) for partition, own in self._tasks.items()}
        self._committed: Checkpoints = {}

    def _others(self, own: Sequence[LocalTask]) -> list[str]:
        """The tasks of other containers that read the partition of these tasks."""
        setup = own[0].setup
        mine = {task.name for task in own}
        tasks = tasks_in(self._plan.stage(setup.stage))
        return [task.name for task in tasks if task.number == setup.number and task.name not in mine]

    @property
    def positions(self) -> dict[StreamPartition, int]:
        """The offset from which each partition is to be read on."""
        return {
            partition: min(task.queues.positions[partition] for task in tasks)
            for partition, tasks in self._tasks.items()
        }

    def wanted(self, ends: Mapping[StreamPartition, int] | None) -> frozenset[StreamPartition]:
        """The partitions that should be read now; the run reads them up to `ends`, if these are given."""
        up_to: Mapping[StreamPartition, int] = {} if ends is None else ends
        return frozenset([partition for partition in self._tasks if self._wants(partition, up_to.get(partition))])

    def _wants(self, partition: StreamPartition, end: int | None) -> bool:
        stream, _ = partition
        reading = [task for task in self._tasks[partition] if not task.queues.is_read(stream, end)]
        return bool(reading) and all(task.queues.has_room(stream) for task in reading)

    def trimmable(self, committed: Callable[[], Checkpoints]) -> dict[StreamPartition, int]:
        """The offsets of intermediate streams before which no task reads a record again. `committed` returns the
        checkpoints of all tasks. Those of other containers count one trim later: their stores are synced by then."""
        own: dict[StreamPartition, list[int]] = {}
        for task in dict.fromkeys(task for tasks in self._tasks.values() for task in tasks):
            for partition, offset in task.trimmable_offsets().items():
                own.setdefault(partition, []).append(offset)
        before, self._committed = self._committed, committed() if any(self._elsewhere.values()) else {}
        offsets: dict[StreamPartition, int] = {}
        for partition, mine in own.items():
            others = [before[name].offsets for name in self._elsewhere[partition] if name in before]
            theirs = [read[partition[0]] for read in others if partition[0] in read]
            if len(mine) + len(theirs) == len(self._tasks[partition]) + len(self._elsewhere[partition]):
                offsets[partition] = min([*mine, *theirs])
        return offsets

    def add(self, batch: RecordBatch) -> list[str]:
        """Queue a batch for the tasks of its partition. Returns their names."""
        tasks = self._tasks[(batch.stream, batch.partition)]
        stage_input, elasticity = tasks[0].program.graph.inputs[batch.stream], tasks[0].setup.elasticity
        if stage_input.split:
            began, trailers = self._clock(), stage_input.clock == "trailer"
            batch.buckets = key_buckets(batch.records, batch.offsets, elasticity, trailers=trailers)
            self.counts.key_bucket_seconds += self._clock() - began
        self.counts.add(batch)
        for task in tasks:
            task.queues.add(batch)
        return [task.name for task in tasks]
