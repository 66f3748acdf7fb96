"""The part of a commit that depends on the system: how what tasks did is made to last, and where they go on from."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ....dsl.message import Record
from ...kernel.state_cache import Change
from ...state.contract import TaskStore
from ...systems.contract import StreamPartition
from ..background_work import Steps
from .checkpoint import Checkpoint, Checkpoints

META = b"\0"
"""Prefix of what a store keeps beside the state: no operator has such an id."""
CHECKPOINT = b"checkpoint"
"""Where a store keeps the checkpoint that belongs to its state."""


def prefix_of(operator: str) -> bytes:
    """What all keys of an operator's state begin with in a store."""
    return operator.encode() + b"\0"


class Outbox(Protocol):
    """Where a task's outputs go until they are committed."""

    @property
    def size(self) -> int:
        """Bytes that wait for the commit."""
        ...

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Hand over records in order."""
        ...


@dataclass(frozen=True, slots=True)
class TaskSetup:
    """A task before it runs: its name, its number within its stage, its store, the changelog of each operator that
    keeps state, by operator, and the inputs that have a partition of its number. Its store may hold the state of
    operators that are gone, which `keeps_more` says."""

    name: str
    stage: str
    number: int
    store: TaskStore
    changelogs: Mapping[str, str]
    inputs: Sequence[str] = ()
    keeps_more: bool = False

    @property
    def stateful(self) -> bool:
        """Whether the task has a store that outlasts the run."""
        return bool(self.changelogs) or self.keeps_more


@dataclass(frozen=True, slots=True)
class TaskCommit:
    """What a task wants to be committed: where it stands, its changes of state since the last commit, and the outbox
    that holds its outputs. The changes can be read once. They are made while they are read: the changes of all tasks
    at one time would take much memory."""

    setup: TaskSetup
    checkpoint: Checkpoint
    changes: Iterable[Change]
    outbox: Outbox


@dataclass(frozen=True, slots=True)
class Committed:
    """What a commit of one task has come to: the checkpoint as it was committed, and the outbox for later outputs."""

    checkpoint: Checkpoint
    outbox: Outbox


class Commits(Protocol):
    """How tasks commit to one system. `together` says that one commit takes in all tasks of the container, `early` that
    outputs can be seen before they are committed."""

    @property
    def together(self) -> bool: ...

    @property
    def early(self) -> bool: ...

    def move_states(self, open_store: Callable[[str], TaskStore]) -> None:
        """Bring what is kept of operators to the stores of the tasks that they are in now; `open_store` opens the store
        of a task. Raises SystemProblem where that cannot be done."""
        ...

    def settle(self, setups: Sequence[TaskSetup], kept: Checkpoints) -> Checkpoints:
        """Bring stores and system to the same commit, where a crash has parted them. `kept` are the checkpoints that
        the system had before; returns those that it has then.

        Raises SystemProblem where one of them lacks what the other has."""
        ...

    def resume(self, setups: Sequence[TaskSetup], kept: Mapping[str, Checkpoint]) -> dict[str, Checkpoint]:
        """Bring the stores to where their tasks go on, and say where that is, by task; `kept` are the checkpoints that
        the system has. A blank one means the beginning."""
        ...

    def outbox(self) -> Outbox:
        """A task's first outbox; `commit` returns the later ones."""
        ...

    def commit(self, commits: Sequence[TaskCommit]) -> Steps[list[Committed]]:
        """Make outputs, state and checkpoints last, in an order that loses nothing. Returns the result of each commit,
        in the order of `commits`. Between the steps calls may end of tasks that are not drained for a commit."""
        ...

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Nobody reads these partitions before these offsets any more."""
        ...
