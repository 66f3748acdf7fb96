"""Processors, and their side outputs."""

from dataclasses import dataclass
from typing import Any, ClassVar

from ..processor import KeyedProcessor, Tag, clock_of
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
        return clock_of(self.processor) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Side(Operator):
    """What a processor emits under a tag."""

    tag: Tag[Any]
    kind: ClassVar[str] = "side"
    emits: ClassVar[Emits] = "many"

    @property
    def plain_label(self) -> str:
        return f"side {self.tag.name}"

    @property
    def name(self) -> str:
        return f"side {self.tag.name}"
