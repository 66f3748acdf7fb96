"""What the oracle knows of a kind of operator."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from fluvial.dsl import Message, Pipeline
from fluvial.dsl.message import Record
from fluvial.dsl.operators import Operator
from oracle.calls import Calls
from oracle.outputs import OutputMessage
from oracle.tables import KeptTables
from oracle.types import Types


class Due(Protocol):
    """Something that state is about to emit, such as a pane, or a timer that is about to be handled."""

    @property
    def key(self) -> Any: ...

    @property
    def timestamp(self) -> int: ...


class State(Protocol):
    """The state of an operator over all keys, and the watermark that it has seen."""

    watermark: float

    def snapshot(self) -> Any: ...

    def restore(self, snapshot: Any) -> None: ...

    def take(self, encoded: bytes, message: Message[Any], index: int, /) -> Sequence[Due] | Literal["late"]:
        """Keep a message of that key, which comes from the input of that index; what it makes due at once."""
        ...

    def next_due(self, watermark: float, /) -> Due | None:
        """What is due next when the watermark comes here; it is no longer due afterwards."""
        ...

    def advance(self, watermark: float) -> None:
        """Count the watermark as seen."""
        ...


class Effects(Protocol):
    """What an operator may do with a message: all that it does for one message takes effect, or nothing if it fails."""

    @property
    def pipeline(self) -> Pipeline: ...

    @property
    def states(self) -> Mapping[str, State]: ...

    @property
    def tables(self) -> KeptTables: ...

    @property
    def calls(self) -> Calls: ...

    def is_read(self, operator: Operator) -> bool:
        """Whether some operator reads what this one emits."""
        ...

    def tasks(self, operator: Operator) -> int:
        """How many tasks the stage behind a broadcast has."""
        ...

    def emit(self, operator: Operator, message: Message[Any], output: int | str | None = None) -> None:
        """Pass a message on to those that read this output of the operator."""
        ...

    def follow(self, operator: Operator, key: Any, timestamp: int, do: Callable[[], None]) -> None:
        """Do something after all else that the message causes; if it fails, it fails alone."""
        ...

    def fire(self, operator: Operator, due: Due) -> None:
        """The same, for something that the operator's state has due."""
        ...

    def write(self, stream: str, message: OutputMessage) -> None: ...

    def put(self, table: str, key: bytes | None, row: Any) -> None:
        """Change the row of a table, once all went well."""
        ...

    def cross(self, border: Operator, record: OutputMessage) -> None:
        """Write a record of an intermediate stream, which the next stage reads."""
        ...

    def count_late(self, operator: Operator) -> None: ...

    def key_bytes(self, operator: Operator, key: Any) -> bytes | None:
        """The bytes of a key, of the type that the operator emits."""
        ...

    def encoded(self, operator: Operator, key: bytes | None, message: Message[Any], kind: Any = None) -> OutputMessage:
        """A message as bytes, its value of this type, else of the type that the operator emits."""
        ...


Take = Callable[[Effects, Any, Message[Any], int], None]
"""Does with a message what the operator does, given the operator, the message, and the index of its input."""
Read = Callable[[Any, Types, Record], Message[Any]]
"""Decodes a record of the stream that an operator reads, given the operator and the types that it emits."""


def takes_nothing(_: Effects, operator: Operator, __: Message[Any], ___: int) -> None:
    """No message reaches the operator: it reads records of a stream."""
    raise AssertionError(f"a message reached {operator.label}")


def passes_on(effects: Effects, operator: Operator, message: Message[Any], _: int) -> None:
    """Emit the message as it is."""
    effects.emit(operator, message)


def as_given(_: Operator, inputs: Sequence[Types]) -> Types:
    """The types of its input."""
    return inputs[0]


def _the_only_output(_: Operator) -> None:
    """The operator in front has one output."""


def _no_delay(_: Operator) -> int:
    return 0


def _never(_: Any, __: Any) -> float:
    return math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptState:
    """The state of a kind of operator.

    `make` makes it, given the operator, the types of its inputs, and whether sessions are remembered after their end.
    `fire` emits what the state has due. `fires_early_at` is the event time at which something is due whose timestamp
    may be before the watermark behind the operator; infinity where that cannot be.
    """

    make: Callable[[Any, Sequence[Types], bool], State]
    fire: Callable[[Effects, Any, Any], None]
    fires_early_at: Callable[[Any, Any], float] = _never


@dataclass(frozen=True, slots=True, kw_only=True)
class OracleKind:
    """A kind of operator as the oracle knows it.

    `types` returns the types that it emits, by the types of its inputs. `take` does what the operator does with a
    message. `read` is for those that read a stream. `output` tells which output of the operator in front it reads,
    where that has several. `state` is None for kinds without state. `delay` is by how many ms its outputs may be behind
    its watermark.
    """

    take: Take
    types: Callable[[Any, Sequence[Types]], Types] = as_given
    read: Read | None = None
    output: Callable[[Any], int | str | None] = _the_only_output
    state: KeptState | None = None
    delay: Callable[[Any], int] = _no_delay
