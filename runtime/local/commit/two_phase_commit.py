"""Two-phase commit, for systems that publish prepared transactions: each task commits its outputs with its state."""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from typing import cast

from ....planner.journals import journals_of
from ...state.contract import TaskStore
from ...systems.contract import DurableTransaction, OtherWriters, StreamPartition, no_others
from ..background_work import Steps
from ..checkpoints.checkpoint import Checkpoint, Checkpoints, encode
from ..journals.writers import PublishedJournal
from ..stores.alignment import CommittedLog, align
from ..stores.state_moves import move_states
from ..stores.store_keys import CHECKPOINT, META, PENDING
from ..task_setup import TaskSetup
from .contract import Committed, TaskCommit


class TwoPhaseCommit:
    """Commits a task in three steps.

    1. Prepare: the outputs become durable, and stay invisible.
    2. Write to the store, in one write: changes of state, checkpoint, and the token that publishes the outputs.
    3. Publish: outputs and checkpoint become visible.

    After a crash between steps 2 and 3 the next start publishes with the token. If published records survive a power
    cut, the store is synced before step 3, so that it survives one too.
    """

    together = False
    early = False

    def __init__(
        self,
        log: CommittedLog,
        between: Collection[StreamPartition] = (),
        others: OtherWriters = no_others,
    ) -> None:
        """`between` are the partitions of all intermediate streams and journals: this container may have written to any
        of them. `others` returns the other containers that may have written to them."""
        self._log = log
        self._pipeline = log.plan.name
        self._producer = log.producer
        self._between = between
        self._others = others
        self.journal = PublishedJournal(log.producer, log.system.admin()) if journals_of(log.plan) else None

    def move_states(self, open_store: Callable[[str], TaskStore]) -> None:
        """Move the state of each operator to the store of the task that has it in this plan."""
        move_states(self._log, open_store)

    def align(self, setups: Sequence[TaskSetup], checkpoints: Checkpoints) -> Checkpoints:  # noqa: ARG002
        """Bring each store to the commit of its checkpoint, and return the checkpoints after that."""
        for setup in setups:
            if setup.stateful:
                align(self._log, setup.name, setup.store, setup.changelogs)
        return self._log.checkpoints()

    def resume(self, setups: Sequence[TaskSetup], checkpoints: Mapping[str, Checkpoint]) -> dict[str, Checkpoint]:
        """The checkpoint of each task; the stores need nothing more."""
        return {setup.name: checkpoints.get(setup.name, Checkpoint()) for setup in setups}

    def staged_outputs(self) -> DurableTransaction:
        """A transaction for the outputs of one task until its next commit."""
        return self._producer.begin()

    def commit(self, commits: Sequence[TaskCommit]) -> Steps[list[Committed]]:
        """Commit one task after the other."""
        yield from ()  # no step waits for a broker
        if self.journal is not None:
            self.journal.flush()
        return [self._commit(commit) for commit in commits]

    def _commit(self, commit: TaskCommit) -> Committed:
        task, data = commit.setup, encode(commit.checkpoint)
        token = cast("DurableTransaction", commit.staged_outputs).prepare(self._pipeline, {task.name: data})
        if task.stateful:
            task.store.write(chain(commit.changes, [(META, CHECKPOINT, data), (META, PENDING, token)]))
            if self._producer.durable:
                task.store.sync()
        self._producer.publish(token)
        return Committed(commit.checkpoint, self._producer.begin())

    def checkpoints(self) -> Checkpoints:
        """The last checkpoints in the log."""
        return self._log.checkpoints()

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Trim what the tasks of this container have read, and remove files that no container needs any more.

        Each partition has one reader: no other container reads what the tasks of this container have read. The
        container that has written a file removes it, since only that container knows what it has still to publish.
        """
        self._producer.trim({**dict.fromkeys(self._between, 0), **starts}, self._others)
