"""A message in a `KeyedExecutor`, as its functions are told of it, and as the executor keeps it."""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .partition_progress import PartitionProgress

T = TypeVar("T")


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
