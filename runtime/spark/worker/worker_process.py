"""What a Python worker of Spark's keeps from batch to batch: one event loop, the clients of a run, and its sinks.

Spark uses a worker process for many tasks of many batches. A client that a function keeps belongs to the loop that it
was made in, so the loop lasts as long as the process.
"""

import atexit
import logging
import os
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any, TypeVar

from ....dsl.errors import SystemProblem
from ...kernel.calls.cancellation import CallLoop
from ...kernel.code.program import Program
from ...open_resources import OpenResources
from ...output_routes import ToldSink
from ..lowering.packaging import forget, program, unpack
from ..lowering.shipped_plan import ShippedPlan

T = TypeVar("T")

_log = logging.getLogger(__name__)


class WorkerProcess:
    """The event loop of this process, and its open resources by the digest of their plan, with the run of that plan.
    Open sinks are by the identities of the user's objects."""

    def __init__(self) -> None:
        self._loop = CallLoop()
        self._open: dict[str, tuple[str, OpenResources]] = {}
        self._sinks: dict[int, ToldSink] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in the loop of this process, which begins with the first one."""
        try:
            self._loop.begin()
        except BaseException:
            work.close()
            raise
        return self._loop.run(work)

    def program(self, shipped: ShippedPlan, stage: str) -> Program:
        """A compiled stage, with all open that its operators need. What another run had open is closed before."""
        bundle, _ = unpack(shipped)
        if shipped.digest not in self._open:
            self._close_others(shipped.run)
            self._open[shipped.digest] = (shipped.run, OpenResources(self.run, bundle.open_within))
        _, resources = self._open[shipped.digest]
        made = program(shipped, stage, resources.clients)
        resources.open(bundle.plan, {stage})
        return made

    def open_sink(self, sink: ToldSink, timeout: timedelta) -> None:
        """Open a sink, if it is not open: see `ToldSink.open`."""
        known = id(sink.operator.sink)
        if known not in self._sinks:
            sink.open(self.run, timeout)
            self._sinks[known] = sink

    def drop_sink(self, sink: ToldSink) -> None:
        """Close a sink whose task has failed: the next task opens it anew. An error of its `close` is told."""
        if self._sinks.pop(id(sink.operator.sink), None) is not None:
            try:
                sink.close(self.run)
            except SystemProblem as error:
                _log.warning("%s", error)

    def _close_others(self, run: str | None) -> None:
        others = [digest for digest, (other, _) in self._open.items() if other != run]
        # The queries of a run share a worker: their sinks stay.
        for sink in reversed([*self._sinks.values()]) if others or run is None else ():
            self.drop_sink(sink)
        for digest in others:
            self._open.pop(digest)[1].close()
            forget(digest)  # its programs hold the clients

    def end_calls(self) -> None:
        """Let calls that were cancelled end. If some do not, the loop ends with them, unless a client or a sink needs
        it."""
        rested = self._loop.rest()
        if not (rested or self._sinks or any(resources.are_open for _, resources in self._open.values())):
            self._loop.end()

    def close(self) -> None:
        """Close all that is open, and end the loop."""
        self._close_others(None)
        self._loop.end()


_kept = [WorkerProcess()]
"""What this process keeps comes last, behind that of the processes that it was forked of: to free their loops would
close what they still use."""


def this_process() -> WorkerProcess:
    """What this process keeps."""
    return _kept[-1]


def _forget_parent() -> None:  # pragma: no cover - tests take it in children that they fork, which are not traced
    _kept.append(WorkerProcess())


os.register_at_fork(after_in_child=_forget_parent)
# Spark ends most workers by a signal, and these close nothing.
atexit.register(lambda: this_process().close())
