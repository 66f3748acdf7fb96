"""The operator of a stream task."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..keyed_state import HoldsStates
from ..pooled_function import pooled_in
from ..processor import states_of
from ..stream_task import hooks_of
from .base import Emits, Operator, Role, StateEntries
from .calls import AsyncCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Task(Operator):
    """Hands messages to a stream task of the user's. `sample` is one that the `factory` has made, for what its class
    declares. With `by_key` its state is by key; `window` is the time between two calls of its method, in ms."""

    factory: Callable[[], HoldsStates]
    sample: HoldsStates
    by_key: bool
    window: int | None
    exclusive: bool = True
    kind: ClassVar[str] = "task"
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "many"
    wants_place: ClassVar[bool] = True
    state_entries: ClassVar[StateEntries] = "declared"

    @property
    def follows_clock(self) -> bool:
        """Whether it is called by the clock."""
        return self.window is not None

    @property
    def keeps_state(self) -> bool:
        """Whether its class declares states."""
        return bool(states_of(self.sample))

    @property
    def is_exclusive(self) -> bool:
        """As its `exclusive=` was given."""
        return self.exclusive

    @property
    def is_elastic(self) -> bool:
        """Whether its messages may be split by key among several tasks."""
        return self.by_key

    @property
    def called(self) -> tuple[Callable[..., Any], ...]:
        """Its method `process`, and those of the others that its class has."""
        return tuple(getattr(self.sample, name) for name in ("process", *hooks_of(self.sample)))

    @property
    def handler(self) -> HoldsStates:
        """A stream task of its class."""
        return self.sample


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCall(Operator):
    """Makes the calls of the asynchronous stream task of the operator `task`, which is behind it: what they gave counts
    there. `sample` and `by_key` are as of a `Task`."""

    task: str
    call: AsyncCall
    sample: HoldsStates
    by_key: bool
    kind: ClassVar[str] = "task_call"
    emits: ClassVar[Emits] = "many"

    @property
    def plain_label(self) -> str:
        """The label of the calls without a kind in front, such as `calls of task priced`."""
        return f"calls of task {self.task}"

    @property
    def async_call(self) -> AsyncCall:
        """The call for each message."""
        return self.call

    @property
    def opens(self) -> tuple[Any, ...]:
        """What its calls need, and the pools of plain functions that stand in its class."""
        return (*self.call.opens, *pooled_in(type(self.sample)))
