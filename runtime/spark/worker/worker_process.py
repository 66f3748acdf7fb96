"""What a Python worker of Spark's keeps from batch to batch: one event loop, and the clients and sinks of runs.

Spark uses a worker process for many tasks of many batches. A client that a function keeps belongs to the loop that it
was made in, so the loop lasts as long as the process.
"""

import atexit
import logging
import os
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ....dsl.errors import SystemProblem
from ....dsl.operators.calls import limits_of
from ...kernel.calls.cancellation import CallLoop
from ...kernel.code.program import Program
from ...open_resources import OpenResources
from ...output_routes import ExplainedSink
from ..lowering.packaging import forget, program, unpack
from ..lowering.shipped_plan import ShippedPlan

T = TypeVar("T")

_log = logging.getLogger(__name__)


MOST_PIPELINES = 4
"""The number of pipelines in one Spark session whose clients and sinks a worker keeps open."""


@dataclass
class _OpenRun:
    """What is open for a run of a pipeline: resources by the digests of their plans, one for each query, and sinks by
    the identities of the user's objects."""

    pipeline: str
    resources: dict[str, OpenResources] = field(default_factory=dict)
    sinks: dict[int, ExplainedSink] = field(default_factory=dict)

    @property
    def needs_loop(self) -> bool:
        """Whether anything is open."""
        return bool(self.sinks) or any(resources.are_open for resources in self.resources.values())


class WorkerProcess:
    """The event loop of this process, and what is open by run; the run that was used last comes last."""

    def __init__(self, loop: CallLoop | None = None) -> None:
        """`loop` is one that has not begun; a new one by default."""
        self._loop = loop or CallLoop()
        self._runs: dict[str, _OpenRun] = {}

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in the loop of this process, which begins with the first one."""
        try:
            self._loop.begin()
        except BaseException:
            work.close()
            raise
        return self._loop.run(work)

    def program(self, shipped: ShippedPlan, stage: str) -> Program:
        """A compiled stage, with all open that its operators need.

        Before that, what an earlier run of the same pipeline has open is closed. Beyond `MOST_PIPELINES` pipelines, so
        is what the least recently used one has open.
        """
        open_run = self._open_run(shipped)
        bundle, _ = unpack(shipped)  # only now: a run that was closed may have had the same plan
        if shipped.digest not in open_run.resources:
            open_run.resources[shipped.digest] = OpenResources(self.run, bundle.open_within)
        resources = open_run.resources[shipped.digest]
        compiled = program(shipped, stage, resources.clients)
        for limit in limits_of(bundle.plan.pipeline.calls):
            compiled.admission(limit).divide(bundle.tasks)
        resources.open(bundle.plan, {stage})
        return compiled

    def open_sink(self, shipped: ShippedPlan, sink: ExplainedSink) -> None:
        """Open a sink of a plan, if it is not open: see `ExplainedSink.open`."""
        sinks, known = self._open_run(shipped).sinks, id(sink.operator.sink)
        if known not in sinks:
            sink.open(self.run, unpack(shipped)[0].open_within)
            sinks[known] = sink

    def drop_sink(self, shipped: ShippedPlan, sink: ExplainedSink) -> None:
        """Close a sink whose task has failed: the next task opens it anew. An error of its `close` is logged."""
        if self._open_run(shipped).sinks.pop(id(sink.operator.sink), None) is not None:
            self._close_sink(sink)

    def _open_run(self, shipped: ShippedPlan) -> _OpenRun:
        """What is open for the run of a plan, which is now the one that was used last."""
        used = self._runs.pop(shipped.run, None)
        if used is None:
            used = _OpenRun(unpack(shipped)[0].plan.name)
            for run in [run for run, other in self._runs.items() if other.pipeline == used.pipeline]:
                self._close_run(run)
            while len(self._runs) >= MOST_PIPELINES:
                self._close_run(next(iter(self._runs)))
        self._runs[shipped.run] = used
        return used

    def _close_run(self, run: str) -> None:
        closed = self._runs.pop(run)
        for sink in reversed(closed.sinks.values()):
            self._close_sink(sink)
        for digest, resources in closed.resources.items():
            resources.close()
            forget(digest)  # its programs hold the clients

    def _close_sink(self, sink: ExplainedSink) -> None:
        try:
            sink.close(self.run)
        except SystemProblem as error:
            _log.warning("%s", error)

    def end_calls(self) -> None:
        """Let calls that were cancelled end. If some do not, the loop ends with them, unless a client or a sink needs
        it."""
        rested = self._loop.rest()
        if not (rested or any(run.needs_loop for run in self._runs.values())):
            self._loop.end()

    def close(self) -> None:
        """Close all that is open, and end the loop."""
        for run in list(self._runs):
            self._close_run(run)
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
