"""Sinks: where messages leave for a place that is no stream."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from .message import Message

V_contra = TypeVar("V_contra", contravariant=True)


class Sink(Protocol[V_contra]):
    """Takes messages out of the pipeline, in batches.

    A message counts as landed once `flush` has returned after the `write` that held it. After a crash, messages since
    the last checkpoint are written again, so `write` should be idempotent. One copy of the sink serves
    each process that runs the pipeline; a sink must be picklable to run on Spark.
    """

    def open(self) -> None:
        """Called once in each process, before the first `write`."""
        ...

    def write(self, messages: Sequence[Message[V_contra]]) -> None: ...

    def flush(self) -> None:
        """Return once all that was written is safe."""
        ...

    def close(self) -> None: ...
