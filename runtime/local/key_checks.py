"""Checks that the keys of a source that has grown are where Kafka's partitioner puts them: else messages of a key would
come to a task that does not have its state."""

from collections.abc import Mapping
from typing import NoReturn

from ...dsl.errors import PlanError
from ...dsl.validation import explain
from ...planner.growths import is_stateful
from ...planner.plan import Plan
from ..systems.contract import RecordBatch, StreamPartition
from ..systems.partitioner import partition_of
from .task_setup import TaskSetup


class KeyCheck:
    """Checks the keys of one partition. One is there rightly if the partitioner puts it there with a number of
    partitions that the stream may have had since the pipeline began: the records of before lie where they were."""

    def __init__(self, plan: Plan, stream: str, partition: int) -> None:
        planned = plan.stream(stream)
        self._plan, self._partition = plan, partition
        self._stream, self._began = stream, planned.spread
        counts = range(planned.spread, planned.partitions + 1, planned.spread)
        # The last first: most records are of then, in the end.
        self._counts = [count for count in reversed(counts) if count > partition]

    def check(self, batch: RecordBatch) -> None:
        """Raise PlanError if a record of the partition has a key that belongs elsewhere."""
        latest, here = self._counts[0], self._partition
        for at, record in enumerate(batch.records):
            key = record[0]
            if key is not None and partition_of(key, latest) != here and not self._was_here(key):
                self._refuse(batch.offsets[at], key)

    def _was_here(self, key: bytes) -> bool:
        return any(partition_of(key, count) == self._partition for count in self._counts)

    def _refuse(self, offset: int, key: bytes) -> NoReturn:
        stream, most = self._stream, self._plan.stream(self._stream).partitions
        wrong = f"the stream {stream!r} has grown from {self._began} to {most} partitions, and is not partitioned by "
        wrong += (
            f"murmur2: the key {key[:100]!r} at offset {offset} of partition {self._partition} belongs in partition "
        )
        wrong += f"{partition_of(key, most)}. State by key is in the task of the partition that its key was in before"
        expected = "a producer that partitions keys as Kafka's Java clients do (librdkafka: partitioner=murmur2_random)"
        remedy = "read it through .partition_by(...), which brings each key to its task; or start over with the new "
        remedy += "partitions: fluvial reset"
        origin = next(source.origin for source in self._plan.pipeline.sources if source.stream == stream)
        raise PlanError(explain(wrong, expected, remedy, origin))


def key_checks(plan: Plan, setup: TaskSetup) -> Mapping[StreamPartition, KeyCheck]:
    """The checks of the partitions of a task: of those of sources with keys that have grown, where there is state."""
    keyed = {source.stream for source in plan.pipeline.sources if source.key is not None}
    partitions = [
        partition
        for partition in setup.partitions.values()
        if partition[0] in keyed and plan.stream(partition[0]).growths > 1
    ]
    return {partition: KeyCheck(plan, *partition) for partition in partitions if is_stateful(plan, partition[0])}
