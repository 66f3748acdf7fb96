"""Commits to systems that publish prepared transactions: each task by itself, at one stroke with its state."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from ..state.contract import TaskStore
from ..systems.contract import DurableTransaction, OtherWriters, StreamPartition, no_others
from . import checkpoint as checkpoints
from .alignment import PENDING, CommittedLog, align
from .apart import Steps
from .checkpoint import Checkpoint, Checkpoints
from .commits import CHECKPOINT, META, Home
from .state_moves import move_states

if TYPE_CHECKING:
    from .task import LocalTask


class PublishedCommits:
    """First the outputs become durable, not yet visible; then, at one stroke, state, offsets and the promise to
    publish; then outputs and checkpoint become visible. After a crash in between, the promise is kept at the next
    start. Where what is published survives a power cut, so do state and promise, before it is published."""

    together = False
    early = False

    def __init__(
        self,
        log: CommittedLog,
        between: Collection[StreamPartition] = (),
        others: OtherWriters = no_others,
    ) -> None:
        """`between` are the partitions of all intermediate streams: this container may have written to any of them.
        `others` tells which other containers may."""
        self._log = log
        self._pipeline = log.plan.name
        self._producer = log.producer
        self._between = between
        self._others = others

    def move_states(self, open_store: Callable[[str], TaskStore]) -> None:
        move_states(self._log, open_store)

    def settle(self, homes: Sequence[Home], kept: Checkpoints) -> Checkpoints:  # noqa: ARG002
        for home in homes:
            if home.stateful:
                align(self._log, home.name, home.store, home.changelogs)
        return self._log.checkpoints()

    def resume(self, homes: Sequence[Home], kept: Mapping[str, Checkpoint]) -> dict[str, Checkpoint]:
        return {home.name: kept.get(home.name, Checkpoint()) for home in homes}

    def outbox(self) -> DurableTransaction:
        return self._producer.begin()

    def commit(self, ready: Sequence[tuple["LocalTask", Checkpoint]]) -> Steps[None]:
        yield from ()  # the disk of this machine keeps nobody waiting
        for task, now in ready:
            data = checkpoints.encode(now)
            token = cast("DurableTransaction", task.outbox).prepare(self._pipeline, {task.name: data})
            if task.stateful:
                task.keep(task.work.changes(), [(META, CHECKPOINT, data), (META, PENDING, token)])
                if self._producer.durable:
                    task.store.sync()
            self._producer.publish(token)
            task.committed(now, self._producer.begin())

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Trim what tasks of this container have passed, and remove files that no container needs any more.

        Each partition has one reader, so what the tasks of this container have passed nobody else will read. Whoever
        has written a file removes it, since only that container knows what it has still to publish.
        """
        self._producer.trim({**dict.fromkeys(self._between, 0), **starts}, self._others)
