"""A message in a `KeyedExecutor`, as its functions are told of it, and as the executor keeps it."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .partition_progress import PartitionProgress

T = TypeVar("T")


def named(what: "Submission[Any]") -> str:
    """Which message that is, as errors say it."""
    where = "" if what.partition is None else f", offset {what.offset} of partition {_text(repr, what.partition)}"
    return f"key {_text(repr, what.key)}{where}"


def error_text(error: BaseException) -> str:
    """An error as Python shows it."""
    return f"{type(error).__name__}: {_text(str, error)}"


def _text(show: Callable[[Any], str], of: object) -> str:
    """A text of what is the user's, whose class may fail to give one."""
    try:
        return show(of)
    except Exception as error:
        return f"({type(of).__name__}, whose __{show.__name__}__ raises {type(error).__name__})"


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
