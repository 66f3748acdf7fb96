"""Commits to systems that publish prepared transactions: each task by itself, at one stroke with its state."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import cast

from ...state.contract import TaskStore
from ...systems.contract import DurableTransaction, OtherWriters, StreamPartition, no_others
from ..background_work import Steps
from ..stores.alignment import PENDING, CommittedLog, align
from ..stores.state_moves import move_states
from . import checkpoint as checkpoints
from .checkpoint import Checkpoint, Checkpoints
from .contract import CHECKPOINT, META, Committed, TaskCommit, TaskSetup


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

    def settle(self, setups: Sequence[TaskSetup], kept: Checkpoints) -> Checkpoints:  # noqa: ARG002
        for setup in setups:
            if setup.stateful:
                align(self._log, setup.name, setup.store, setup.changelogs)
        return self._log.checkpoints()

    def resume(self, setups: Sequence[TaskSetup], kept: Mapping[str, Checkpoint]) -> dict[str, Checkpoint]:
        return {setup.name: kept.get(setup.name, Checkpoint()) for setup in setups}

    def outbox(self) -> DurableTransaction:
        return self._producer.begin()

    def commit(self, commits: Sequence[TaskCommit]) -> Steps[list[Committed]]:
        yield from ()  # the disk of this machine keeps nobody waiting
        return [self._commit(commit) for commit in commits]

    def _commit(self, commit: TaskCommit) -> Committed:
        task, data = commit.setup, checkpoints.encode(commit.checkpoint)
        token = cast("DurableTransaction", commit.outbox).prepare(self._pipeline, {task.name: data})
        if task.stateful:
            task.store.write(chain(commit.changes, [(META, CHECKPOINT, data), (META, PENDING, token)]))
            if self._producer.durable:
                task.store.sync()
        self._producer.publish(token)
        return Committed(commit.checkpoint, self._producer.begin())

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Trim what tasks of this container have passed, and remove files that no container needs any more.

        Each partition has one reader, so what the tasks of this container have passed nobody else will read. Whoever
        has written a file removes it, since only that container knows what it has still to publish.
        """
        self._producer.trim({**dict.fromkeys(self._between, 0), **starts}, self._others)
