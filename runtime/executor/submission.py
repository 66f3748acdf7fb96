"""A message in a `KeyedExecutor`, as its functions are given it, and as the executor keeps it."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .partition_progress import PartitionProgress

T = TypeVar("T")


def named(what: "Submission[Any]") -> str:
    """Which message that is, as errors say it."""
    where = "" if what.partition is None else f", offset {what.offset} of partition {_shown(what.partition)}"
    return f"key {_shown(what.key)}{where}"


def _shown(value: object) -> str:
    """A value as Python shows it. Its class may be the user's, and its `__repr__` may raise."""
    try:
        return repr(value)
    except Exception as error:
        return f"({type(value).__name__}, whose __repr__ raises {type(error).__name__})"


@dataclass(frozen=True, slots=True)
class Submission(Generic[T]):
    """A message as it was submitted to a `KeyedExecutor`. `partition` and `offset` are None where it came without.

    >>> Submission("tea", key="c1", partition=("orders", 0), offset=7).offset
    7
    """

    value: T
    key: Hashable = None
    partition: Hashable = None
    offset: int | None = None


@dataclass(eq=False, slots=True)
class Entry:
    """A message that an executor has taken and that has not landed. `mark` is 1 once it has. What was `dropped`, at a
    revocation or a failure, never lands; a call of it may still run."""

    submission: Submission[Any]
    progress: PartitionProgress | None = None
    mark: bytearray = field(default_factory=lambda: bytearray(1))
    dropped: bool = False
