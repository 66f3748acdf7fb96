"""The partitions that a container reads, each once for all tasks that process key buckets of it."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from ...planner.task_assignment import TaskId, is_whole, task_name
from ..kernel.key_buckets import folded, key_buckets
from ..systems.contract import RecordBatch, StreamPartition
from .checkpoints.checkpoint import Checkpoint, Checkpoints
from .observe.input_counts import InputCounts
from .task import LocalTask

OffsetIn = Callable[[Checkpoint], int | None]
"""Returns the offset of a partition in the checkpoint of a task that reads it; None if it has none."""


class ContainerInputs:
    """Reads for the tasks of a container, and tells which records none of them reads again.

    A partition is read from the least offset of its tasks on: each passes over what it has had before. So all of them
    have the same messages in memory, and the slowest holds the reading of the partition back, never another's commits.
    """

    def __init__(
        self,
        tasks: Sequence[LocalTask],
        clock: Callable[[], float] = time.monotonic,
        counts: InputCounts | None = None,
    ) -> None:
        """`counts` counts what is read, also where the tasks of the container change."""
        self.counts = counts or InputCounts()
        self.counts.follow(tasks)
        self._clock = clock
        self._tasks: dict[StreamPartition, list[LocalTask]] = {}
        for task in tasks:
            for partition in task.queues.positions:
                self._tasks.setdefault(partition, []).append(task)
        self._journals: dict[StreamPartition, tuple[str, list[LocalTask]]] = {}
        for task in tasks:
            for operator, journal in task.journals.items():
                self._journals.setdefault(journal.partition, (operator, []))[1].append(task)
        self._checks = {partition: check for task in tasks for partition, check in task.key_checks.items()}
        self._whole = {partition: _is_whole(own, ()) for partition, own in self._tasks.items()}
        self._committed: Checkpoints = {}

    @property
    def positions(self) -> dict[StreamPartition, int]:
        """The offset from which each partition is to be read on."""
        return {
            partition: min(task.queues.positions[partition] for task in tasks)
            for partition, tasks in self._tasks.items()
        }

    @property
    def read_to(self) -> dict[StreamPartition, int]:
        """The offset up to which some task has read each partition."""
        return {
            partition: max(task.queues.positions[partition] for task in tasks)
            for partition, tasks in self._tasks.items()
        }

    def wanted(self, ends: Mapping[StreamPartition, int] | None) -> frozenset[StreamPartition]:
        """The partitions that should be read now; the run reads them up to `ends`, if these are given."""
        up_to: Mapping[StreamPartition, int] = {} if ends is None else ends
        return frozenset([partition for partition in self._tasks if self._wants(partition, up_to.get(partition))])

    def _wants(self, partition: StreamPartition, end: int | None) -> bool:
        tasks = self._tasks[partition]
        stream = tasks[0].queues.name_of(partition)  # one for all, since the tasks are of one number
        reading = [task for task in tasks if not task.queues.is_read(stream, end)]
        # Those that are to come equally far before they are merged: the others are held meanwhile, with full queues.
        if any(task.queues.is_behind(stream) for task in reading):
            return True
        return bool(reading) and all(task.queues.has_room(stream) for task in reading)

    def trimmable(self, committed: Callable[[], Checkpoints], *, last: bool = False) -> dict[StreamPartition, int]:
        """The offsets of intermediate streams and journals before which no task reads a record again. `committed`
        returns the checkpoints of all tasks. Those of other containers count one trim later: their stores are synced by
        then. In the `last` trim of a run they count at once: whoever ends last would leave what is shared else."""
        own: dict[StreamPartition, list[int]] = {}
        for task in dict.fromkeys(task for tasks in self._tasks.values() for task in tasks):
            for partition, offset in task.trimmable_offsets().items():
                own.setdefault(partition, []).append(offset)
        before, self._committed = self._committed, {} if all(self._whole.values()) else committed()
        if last:
            # Those stores may not be synced where the log has no fsync, which promises nothing for a power cut.
            before = self._committed
        offsets: dict[StreamPartition, int] = {}
        for partition, mine in own.items():
            tasks, offset_in = self._readers(partition)
            theirs = {} if _is_whole(tasks, ()) else _others(before, tasks, offset_in)
            if len(mine) == len(tasks) and _is_whole(tasks, theirs):
                offsets[partition] = min([*mine, *theirs.values()])
        return offsets

    def _readers(self, partition: StreamPartition) -> tuple[list[LocalTask], OffsetIn]:
        """The tasks of this container that read a partition, and what returns the offset of it in a checkpoint."""
        if partition in self._journals:
            operator, tasks = self._journals[partition]
            return tasks, lambda checkpoint: checkpoint.journals.get(operator)
        return self._tasks[partition], lambda checkpoint: checkpoint.offsets.get(partition[0])

    def add(self, batch: RecordBatch) -> list[str]:
        """Queue a batch for the tasks of its partition. Returns their names. Raises PlanError for a key of a source
        that has grown, where it belongs in another partition."""
        partition = batch.stream, batch.partition
        tasks = self._tasks[partition]
        if partition in self._checks:
            self._checks[partition].check(batch)
        for task, part in zip(tasks, self._split(batch, tasks), strict=True):
            task.queues.add(part)
        return [task.name for task in tasks]

    def _split(self, batch: RecordBatch, tasks: Sequence[LocalTask]) -> list[RecordBatch]:
        """A batch for each of these tasks, with the key buckets by its elasticity. They share the records."""
        inputs = [task.program.graph.inputs[batch.stream] for task in tasks]
        factors = [task.setup.elasticity if one.split else 1 for task, one in zip(tasks, inputs, strict=True)]
        largest, parts = max(factors), {1: batch}
        if largest > 1:
            began, trailers = self._clock(), inputs[0].clock == "trailer"
            buckets = key_buckets(batch.records, batch.offsets, largest, trailers=trailers)
            # While a stage changes there are tasks of several.
            parts |= {factor: batch.split(folded(buckets, factor)) for factor in {*factors} - {1, largest}}
            parts[largest] = batch.split(buckets)
            self.counts.key_bucket_seconds += self._clock() - began
        self.counts.add(parts[largest])
        return [parts[factor] for factor in factors]


def _others(checkpoints: Checkpoints, own: Sequence[LocalTask], offset_in: OffsetIn) -> dict[str, int]:
    """The offsets up to which tasks of other containers have read the partition of these tasks."""
    ids = [TaskId.parse(task.name) for task in own]
    others = {TaskId.parse(name): offset_in(one) for name, one in checkpoints.items()}
    return {
        id.name: offset
        for id, offset in others.items()
        if id[:2] == ids[0][:2] and offset is not None and not any(id.shares_keys(mine) for mine in ids)
    }


def _is_whole(own: Sequence[LocalTask], others: Iterable[str]) -> bool:
    """Whether these tasks have all keys of a partition."""
    setup = own[0].setup
    return is_whole(task_name(setup.stage, setup.number), [*(task.name for task in own), *others])
