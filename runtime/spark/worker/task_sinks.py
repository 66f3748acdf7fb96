"""The sinks that one task of Spark's writes to. They stay open for the next task."""

from contextlib import ExitStack
from typing import Any

from ....dsl.sink import BatchPart
from ...output_routes import MOST_IN_SINKS, ExplainedSink
from ..batch_times import batch_of_task
from ..lowering.shipped_plan import ShippedPlan
from .worker_process import this_process


class TaskSinks:
    """The sinks of a plan in one task. Where the task fails, `stack` closes those that it has written to. `part` is the
    number of the part of a batch that the task writes, None for that of the task."""

    def __init__(self, shipped: ShippedPlan, stack: ExitStack, part: int | None = None) -> None:
        self._shipped = shipped
        self._used: dict[str, ExplainedSink] = {}
        self._held = 0
        self._batch, self._part = batch_of_task(), part
        stack.push(self._left)

    def write(self, name: str, sink: ExplainedSink, messages: list[Any]) -> None:
        """Write messages to a sink. Sinks hold a limited number of messages before they are flushed."""
        if name not in self._used:
            this_process().open_sink(self._shipped, sink)
            self._used[name] = sink
            if self._batch is not None:
                query, batch, task = self._batch
                sink.begin(BatchPart(query, batch, task if self._part is None else self._part, name))
        sink.write(messages)
        self._held += len(messages)
        if self._held >= MOST_IN_SINKS:
            self.flush()

    def flush(self) -> None:
        """Flush the sinks: all messages written to them are then durable."""
        for sink in self._used.values():
            sink.flush()
        self._held = 0

    def _left(self, _: object, error: BaseException | None, __: object) -> None:
        for sink in self._used.values() if error is not None else ():
            this_process().drop_sink(self._shipped, sink)
