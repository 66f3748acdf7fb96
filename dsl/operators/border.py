"""Operators at which one stage ends: what they write is an intermediate stream, and the next stage reads it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from .base import Operator, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Border(Operator):
    """Writes each message to an intermediate stream, which the next stage reads as values of type `value`."""

    value: Any
    priority: int = 0
    """Its messages come before those of other inputs of a lower priority that wait in a task behind it."""
    role: ClassVar[Role] = "terminal"
    is_border: ClassVar[bool] = True
    to_all: ClassVar[bool] = False
    """Whether every task behind it reads all messages, not those of its partitions alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBy(Border):
    """A border that gives each message the key that `fn` says, and brings equal keys together."""

    fn: Callable[[Any], Any]
    key: Any
    kind: ClassVar[str] = "partition_by"


@dataclass(frozen=True, slots=True, kw_only=True)
class Broadcast(Border):
    """A border that hands each message to every task of the next stage."""

    kind: ClassVar[str] = "broadcast"
    to_all: ClassVar[bool] = True
