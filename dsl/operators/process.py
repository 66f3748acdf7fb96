"""The operators of a processor: itself, and its side outputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..errors import PipelineError
from ..processor import KeyedProcessor, Tag, answers_timers, checked_processor, clock_of
from ..resource import opens_itself
from ..validation import flag, require
from .base import Emits, Operator, Role, StateEntries


@dataclass(frozen=True, slots=True, kw_only=True)
class Process(Operator):
    """Hands the messages of each key to a processor of the user's, which keeps state and sets timers."""

    processor: KeyedProcessor[Any, Any, Any]
    exclusive: bool = True
    kind: ClassVar[str] = "process"
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "many"
    state_entries: ClassVar[StateEntries] = "declared"

    @property
    def follows_clock(self) -> bool:
        """Whether its class declares timers by the clock."""
        return clock_of(self.processor) is not None

    @property
    def is_exclusive(self) -> bool:
        """As its `exclusive=` was given."""
        return self.exclusive

    @property
    def fires_by_key(self) -> bool:
        """Whether it answers timers."""
        return answers_timers(self.processor)

    @property
    def called(self) -> tuple[Callable[..., Any], ...]:
        """The methods of the processor for messages and timers."""
        return self.processor.on_message, self.processor.on_timer

    @property
    def opens(self) -> tuple[Any, ...]:
        """The processor, if it has `open` and `close`."""
        return (self.processor,) if opens_itself(self.processor) else ()

    @property
    def handler(self) -> KeyedProcessor[Any, Any, Any]:
        """The object whose methods are called, and whose class declares states, timers and tags."""
        return self.processor


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(Operator):
    """Passes on what the processor that it follows emits under a tag."""

    tag: Tag[Any]
    kind: ClassVar[str] = "side"
    emits: ClassVar[Emits] = "many"

    @property
    def plain_label(self) -> str:
        """`side alerts`, by the name of its tag."""
        return f"side {self.tag.name}"

    @property
    def name(self) -> str:
        """`side alerts`: a processor has one side output for each tag."""
        return f"side {self.tag.name}"


def checked_process(what: str, processor: Any, *, exclusive: bool) -> dict[str, Any]:
    """The fields of a processor's operator; raises PipelineError for what cannot be put to work."""
    checked = checked_processor(what, processor)
    flag(f"{what}: exclusive", exclusive)
    wrong = f"{what}: exclusive=False and {type(checked).__name__}, which has no on_timer"
    remedy = "leave out exclusive=: it is for what timers emit"
    require(exclusive or answers_timers(checked), PipelineError, wrong, "a processor that answers timers", remedy)
    return {"processor": checked, "exclusive": exclusive}
