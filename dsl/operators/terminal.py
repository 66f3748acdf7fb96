"""Operators at which a message leaves the pipeline."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..sink import Sink
from .base import Operator, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class SendTo(Operator):
    """Writes each message to a stream; `value` is a type or Serde, None where the planner is to tell."""

    stream: str
    key: Callable[[Any], Any] | None
    value: Any
    kind: ClassVar[str] = "send_to"
    role: ClassVar[Role] = "terminal"

    @property
    def plain_label(self) -> str:
        """`send_to visits`, by the stream that it writes."""
        return f"send_to {self.stream}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkTo(Operator):
    """Hands each message to a sink of the user's."""

    sink: Sink[Any]
    kind: ClassVar[str] = "sink"
    role: ClassVar[Role] = "terminal"

    @property
    def called(self) -> tuple[Callable[..., Any], ...]:
        """The methods of the sink for messages."""
        return self.sink.write, self.sink.flush
