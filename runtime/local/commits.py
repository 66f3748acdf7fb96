"""The part of a commit that depends on the system: how what tasks did is made to last, and where they go on from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from ...dsl.message import Record
from ..state.contract import TaskStore
from ..systems.contract import StreamPartition
from .apart import Steps
from .checkpoint import Checkpoint, Checkpoints

if TYPE_CHECKING:
    from .task import LocalTask

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
class Home:
    """A task before it runs: its name, its number within its stage, its store, and the changelog of each operator
    that keeps state, by operator. Its store may hold the state of operators that are gone, which `keeps_more` says."""

    name: str
    stage: str
    number: int
    store: TaskStore
    changelogs: Mapping[str, str]
    keeps_more: bool = False

    @property
    def stateful(self) -> bool:
        return bool(self.changelogs) or self.keeps_more


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

    def settle(self, homes: Sequence[Home], kept: Checkpoints) -> Checkpoints:
        """Bring stores and system to the same commit, where a crash has parted them. `kept` are the checkpoints that
        the system had before; returns those that it has then.

        Raises SystemProblem where one of them lacks what the other has."""
        ...

    def resume(self, homes: Sequence[Home], kept: Mapping[str, Checkpoint]) -> dict[str, Checkpoint]:
        """Bring the stores to where their tasks go on, and say where that is, by task; `kept` are the checkpoints that
        the system has. A blank one means the beginning."""
        ...

    def outbox(self) -> Outbox:
        """A task's first outbox; `commit` gives it those after."""
        ...

    def commit(self, ready: Sequence[tuple["LocalTask", Checkpoint]]) -> Steps[None]:
        """Make outputs, state and checkpoints last, in an order that loses nothing, and tell the tasks. Between its
        steps calls of tasks may end that are not drained for it."""
        ...

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Nobody reads these partitions before these offsets any more."""
        ...
