"""Commits to systems that publish prepared transactions: each task by itself, at one stroke with its state."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ...dsl.checks import explain
from ...dsl.errors import SystemProblem
from ..state.contract import TaskStore
from ..systems.contract import DurableTransaction, OtherWriters, Publisher, StreamPartition, no_others
from . import checkpoint as checkpoints
from .apart import Steps
from .checkpoint import Checkpoint
from .commits import CHECKPOINT, META, Home

if TYPE_CHECKING:
    from .task import LocalTask

_PENDING = b"pending"


def publish_pending(producer: Publisher, store: TaskStore) -> None:
    """Keep the promise that a store has of a commit that a crash cut short, if there is one."""
    pending = store.get(META, _PENDING)
    if pending is not None:
        producer.publish(pending)


class PublishedCommits:
    """First the outputs become durable, not yet visible; then, at one stroke, state, offsets and the promise to
    publish; then outputs and checkpoint become visible. After a crash in between, the promise is kept at the next
    start."""

    together = False
    early = False

    def __init__(
        self,
        pipeline: str,
        producer: Publisher,
        between: Collection[StreamPartition] = (),
        others: OtherWriters = no_others,
    ) -> None:
        """`between` are the partitions of all intermediate streams: this container may have written to any of them.
        `others` tells which other containers may."""
        self._pipeline = pipeline
        self._producer = producer
        self._between = between
        self._others = others

    def resume(self, homes: Sequence[Home], kept: Mapping[str, Checkpoint]) -> dict[str, Checkpoint]:
        return {home.name: self._resume(home, kept.get(home.name)) for home in homes}

    def _resume(self, home: Home, kept: Checkpoint | None) -> Checkpoint:
        """A store knows best where to go on, for its state and offsets were written at one stroke."""
        publish_pending(self._producer, home.store)
        data = home.store.get(META, CHECKPOINT)
        if data is None and kept is not None and home.stateful:
            wrong = f"the state of task {home.name} is gone, though the task has a checkpoint"
            remedy = "bring the folder of its store back, or run the pipeline under another name to start over"
            raise SystemProblem(explain(wrong, "the store that was written with the checkpoint", remedy, home.stage))
        if data is not None:
            return checkpoints.decode(data, home.name)
        return kept or Checkpoint()

    def outbox(self) -> DurableTransaction:
        return self._producer.begin()

    def commit(self, ready: Sequence[tuple["LocalTask", Checkpoint]]) -> Steps[None]:
        yield from ()  # the disk of this machine keeps nobody waiting
        for task, now in ready:
            data = checkpoints.encode(now)
            token = cast("DurableTransaction", task.outbox).prepare(self._pipeline, {task.name: data})
            if task.stateful:
                task.keep(task.work.changes(), [(META, CHECKPOINT, data), (META, _PENDING, token)])
            self._producer.publish(token)
            task.committed(now, self._producer.begin())

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Trim what tasks of this container have passed, and remove files that no container needs any more.

        Each partition has one reader, so what the tasks of this container have passed nobody else will read. Whoever
        has written a file removes it, since only that container knows what it has still to publish.
        """
        self._producer.trim({**dict.fromkeys(self._between, 0), **starts}, self._others)
