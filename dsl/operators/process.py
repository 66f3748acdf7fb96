"""The operators of a processor: itself, and its side outputs."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..processor import KeyedProcessor, Tag, clock_of
from ..resource import opens_itself
from .base import Emits, Operator, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Process(Operator):
    """Hands the messages of each key to a processor of the user's, which keeps state and sets timers."""

    processor: KeyedProcessor[Any, Any, Any]
    kind: ClassVar[str] = "process"
    role: ClassVar[Role] = "both"
    emits: ClassVar[Emits] = "many"

    @property
    def follows_clock(self) -> bool:
        """Whether its class declares timers by the clock."""
        return clock_of(self.processor) is not None

    @property
    def opens(self) -> tuple[Any, ...]:
        """The processor, if it has `open` and `close`."""
        return (self.processor,) if opens_itself(self.processor) else ()

    @property
    def handler(self) -> KeyedProcessor[Any, Any, Any]:
        """The processor."""
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
