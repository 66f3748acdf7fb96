"""Sinks: where messages leave for a place that is no stream."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

from .errors import PipelineError
from .message import Message
from .validation import require

V_contra = TypeVar("V_contra", contravariant=True)


class Sink(Protocol[V_contra]):
    """Takes messages out of the pipeline, in batches.

    A message counts as landed once `flush` has returned after the `write` that held it. After a crash, messages since
    the last checkpoint are written again, so `write` should be idempotent. One copy of the sink serves
    each process that runs the pipeline; a sink must be picklable to run on Spark.

    >>> class Prices:
    ...     def open(self) -> None:
    ...         self.latest: dict[object, int] = {}
    ...     def write(self, messages: Sequence[Message[int]]) -> None:
    ...         self.latest.update((message.key, message.value) for message in messages)
    ...     def flush(self) -> None: pass
    ...     def close(self) -> None: pass
    >>> prices, pipeline = Prices(), Pipeline("prices")
    >>> pipeline.stream("prices", key=str, value=int).sink(prices, id="latest")
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("prices", 250, key="tea")
    ...     driver.send("prices", 260, key="tea")
    >>> prices.latest
    {'tea': 260}
    """

    def open(self) -> None:
        """Called once in each process, before the first `write`."""
        ...

    def write(self, messages: Sequence[Message[V_contra]]) -> None:
        """Take the next messages; they may be held until `flush`."""
        ...

    def flush(self) -> None:
        """Return once all that was written is safe."""
        ...

    def close(self) -> None:
        """Called once in each process, after the last `flush`, also where the run failed."""
        ...


def check_sink(id: str, sink: object) -> None:
    """Refuse what lacks a method of a sink."""
    missing = [name for name in ("open", "write", "flush", "close") if not callable(getattr(sink, name, None))]
    wrong = f"sink {id!r}: {type(sink).__name__} has no {', '.join(missing)}"
    require(not missing, PipelineError, wrong, "an object with open, write, flush and close")
