"""An input of a stage, and how the stage learns its time."""

from dataclasses import dataclass
from typing import Literal

from ....dsl import operators as ops

TimeSource = Literal["source", "trailer", "given"]
"""How a stage learns the time of an input: from the messages' own timestamps, from stamps in their headers, or from the
engine alone."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """An input of a stage: its stream, how it tells time, and the operators that read it. `source` is None for an
    intermediate stream, whose types are those of the operator `writer`. `silent`: it fills tables alone, so that its
    time is nobody's."""

    stream: str
    clock: TimeSource
    source: ops.Source | None
    writer: str
    readers: tuple[str, ...]
    silent: bool = False
