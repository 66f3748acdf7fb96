"""An input of a stage, and how the stage learns its time."""

from dataclasses import dataclass
from typing import Literal

from ....dsl import operators as ops

TimeSource = Literal["source", "trailer", "given"]
"""Where the time of an input comes from: from the timestamps of its messages, from the trailers of its records, or from
the engine ("given")."""


@dataclass(frozen=True, slots=True)
class StageInput:
    """An input of a stage: its stream, where its time comes from, and the operators that read it. `source` is None for
    an intermediate stream, whose types are those of the operator `writer`. A `silent` input fills tables and nothing
    else: nothing waits for its watermark. One with `partials` may have partial aggregates in place of messages. Of one
    that is `split` a task processes the messages of its key bucket alone; the others advance its time. A source that
    has grown is an input for each `growth` of it, by the names of these, with the messages of one source."""

    stream: str
    clock: TimeSource
    source: ops.Source | None
    writer: str
    readers: tuple[str, ...]
    silent: bool = False
    partials: bool = False
    split: bool = False
    growth: int = 0
