"""The contract of a commit: what a task gives to it, and what each system makes durable."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ....dsl.message import Record
from ...kernel.state_backend import Change
from ...state.contract import TaskStore
from ...systems.contract import StreamPartition
from ..background_work import Steps
from ..checkpoints.checkpoint import Checkpoint, Checkpoints, Owner
from ..journals.writers import JournalWriter
from ..task_setup import TaskSetup


class StagedOutputs(Protocol):
    """Holds the outputs of a task until they are committed."""

    @property
    def size(self) -> int:
        """The bytes that wait for the commit."""
        ...

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Add records, in order."""
        ...


@dataclass(frozen=True, slots=True)
class TaskCommit:
    """A commit of one task: its checkpoint, its changes of state since the last commit, and the buffer of its outputs.

    The changes can be read once. They are computed while they are read: the changes of all tasks at one time would take
    much memory.

    `successors` are the tasks that go on from this commit, each with the container that has it then: the task itself in
    another container, those that it is split into, or the one that it is merged into with others of this commit. Empty:
    the task goes on as it is.
    """

    setup: TaskSetup
    checkpoint: Checkpoint
    changes: Iterable[Change]
    staged_outputs: StagedOutputs
    successors: Mapping[str, Owner] = field(default_factory=dict)

    @property
    def replaced(self) -> bool:
        """Whether other tasks take the place of this one."""
        return bool(self.successors) and self.setup.name not in self.successors


@dataclass(frozen=True, slots=True)
class Committed:
    """The result of a task's commit: the checkpoint as it was committed, and the buffer for later outputs."""

    checkpoint: Checkpoint
    staged_outputs: StagedOutputs


class Commits(Protocol):
    """How tasks commit to one system. With `together` a commit contains all tasks of the container. With `early` others
    may see outputs before they are committed."""

    @property
    def together(self) -> bool:
        """Whether a commit contains all tasks of the container."""
        ...

    @property
    def early(self) -> bool:
        """Whether others may see outputs before they are committed."""
        ...

    @property
    def journal(self) -> JournalWriter | None:
        """What writes the results of calls outside of commits; a commit waits for it. None if the plan has no
        journal."""
        ...

    def move_states(self, open_store: Callable[[str], TaskStore]) -> None:
        """Move the state of each operator to the store of the task that has the operator now. `open_store` opens the
        store of a task. Raises SystemProblem where a store cannot be moved."""
        ...

    def align(self, setups: Sequence[TaskSetup], checkpoints: Checkpoints) -> Checkpoints:
        """Bring stores and system to the same commit after a crash between the two. `checkpoints` are those that the
        system has; returns those that it has afterwards.

        Raises SystemProblem where stores or system lack a commit that the other one has."""
        ...

    def resume(self, setups: Sequence[TaskSetup], checkpoints: Mapping[str, Checkpoint]) -> dict[str, Checkpoint]:
        """Bring each store to the checkpoint of its task; returns the checkpoints to resume from, by task.
        `checkpoints` are those that the system has. A blank checkpoint means the beginning."""
        ...

    def staged_outputs(self) -> StagedOutputs:
        """The first output buffer of a task. `commit` returns the later ones."""
        ...

    def commit(self, commits: Sequence[TaskCommit]) -> Steps[list[Committed]]:
        """Make outputs, state and checkpoints durable, in an order that loses nothing. Returns the result of each
        commit, in the order of `commits`. Between the steps, asynchronous calls of tasks that are not drained for a
        commit may end."""
        ...

    def checkpoints(self) -> Checkpoints:
        """The last checkpoint of each task of the pipeline, those of other containers too."""
        ...

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Let the system remove the records of these partitions before these offsets: no task reads them again."""
        ...
