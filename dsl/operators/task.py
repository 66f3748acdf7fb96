"""The operator of a stream task."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..stream_task import StreamTask
from .base import Emits, Operator, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Operator):
    """Hands messages to a stream task of the user's. `sample` is one that the `factory` has made, for what its class
    declares. With `by_key` its state is by key; `window` is the time between two calls of its method, in ms."""

    factory: Callable[[], StreamTask[Any, Any, Any]]
    sample: StreamTask[Any, Any, Any]
    by_key: bool
    window: int | None
    kind: ClassVar[str] = "task"
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "many"
    wants_place: ClassVar[bool] = True

    @property
    def follows_clock(self) -> bool:
        """Whether it is called by the clock."""
        return self.window is not None

    @property
    def is_elastic(self) -> bool:
        """Whether its messages may be split by key among several tasks."""
        return self.by_key

    @property
    def handler(self) -> StreamTask[Any, Any, Any]:
        """A stream task of its class."""
        return self.sample
