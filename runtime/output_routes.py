"""The routes of a stage's outputs: to streams, to intermediate streams that all tasks read, or to sinks."""

import inspect
import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from ..dsl import operators as ops
from ..dsl.errors import FluvialError, NoProgressError, SystemProblem
from ..dsl.message import Message
from ..dsl.sink import BEGIN, BatchPart
from ..dsl.text import error_text
from ..dsl.validation import explain
from ..planner.plan import Plan
from .kernel.calls.cancellation import CLOSE_SECONDS, AbandonedCalls, Expired, RunWork, call_with_timeout
from .kernel.output_buffer import DEAD_LETTERS
from .process.interruptions import interruption
from .process.resource_limits import remedy_for

_log = logging.getLogger(__name__)

MOST_IN_SINKS = 50_000
"""Messages that sinks may hold until they are flushed."""


@dataclass(frozen=True, slots=True)
class OutputRoute:
    """The route of one operator's outputs: to a `sink`, else to a stream of so many partitions. `name` is that of the
    stream or sink. With `to_all` each output goes to all partitions."""

    name: str
    partitions: int = 1
    to_all: bool = False
    is_border: bool = False
    sink: "ExplainedSink | None" = None

    def keyless_partition(self, task: int) -> int:
        """The partition of a task's messages without key. All of one task go to one partition, which keeps their order;
        a border writes them to its first partition."""
        return 0 if self.is_border else task % self.partitions


class OutputRoutes:
    """The routes of a stage by operator, with that of DEAD_LETTERS. `written` counts the messages of each stream or
    sink."""

    def __init__(self, plan: Plan, stage: str) -> None:
        operators = frozenset(plan.stage(stage).operators)
        borders = {border.id: border.to_all for border in plan.pipeline.borders}
        self._routes: dict[str, OutputRoute] = {}
        for operator in plan.operators:
            if operator.id in operators and operator.writes:
                stream = plan.stream(operator.writes[0])
                is_border = operator.id in borders
                to_all = is_border and borders[operator.id]
                self._routes[operator.id] = OutputRoute(stream.name, stream.partitions, to_all, is_border)
        for stream in plan.streams:
            if stream.kind == "dead-letters":
                self._routes[DEAD_LETTERS] = OutputRoute(stream.name, stream.partitions)
        for sink in plan.pipeline.sinks:
            if sink.id in operators:
                self._routes[sink.id] = OutputRoute(sink.id, sink=ExplainedSink(sink))
        self.written: dict[str, int] = {}

    def __getitem__(self, operator: str) -> OutputRoute:
        return self._routes[operator]

    @property
    def borders(self) -> dict[str, OutputRoute]:
        """The routes that lead to other stages, by operator."""
        return {operator: route for operator, route in self._routes.items() if route.is_border}

    @property
    def sinks(self) -> "list[ExplainedSink]":
        """The sinks of the stage, in the order of the pipeline, without those of other stages."""
        return [route.sink for route in self._routes.values() if route.sink is not None]

    def count(self, route: OutputRoute, messages: int) -> None:
        """Add to `written`, by stream or sink. A message that goes to all partitions counts once."""
        self.written[route.name] = self.written.get(route.name, 0) + messages


@dataclass(frozen=True, slots=True)
class ExplainedSink:
    """A sink of the user's, whose errors name it and its line. They count as those of a place that is out of reach, not
    as those of a message: a supervisor starts the container again."""

    operator: ops.SinkTo

    def open(self, run: RunWork, timeout: timedelta | None) -> None:
        """Open it; `run` runs an `open` that is asynchronous. Raises SystemProblem for any error of it, since those of
        services may be any, and NoProgressError where it takes longer than `timeout`."""
        seconds = None if timeout is None else timeout.total_seconds()
        try:
            self._wait_for(self.operator.sink.open(), run, seconds)
        except Expired:
            wrong = f"{self.operator.label} is not open after {seconds or 0:g} s, the stall_timeout"
            ends = "look for a call that never returns, or raise stall_timeout"
            raise NoProgressError(explain(wrong, "an open() that ends", ends, self.operator.origin)) from None
        except FluvialError:  # as in _explained
            raise
        except Exception as error:
            if interruption(error):
                raise
            wrong = f"{self.operator.label} cannot be opened: {error_text(error)}"
            expected = "an open() that succeeds in each process that runs the pipeline"
            remedy = remedy_for(error) if isinstance(error, OSError) else None
            remedy = remedy or "mend what it opens, or its open(), and start again"
            raise SystemProblem(explain(wrong, expected, remedy, self.operator.origin)) from error

    def begin(self, part: BatchPart) -> None:
        """Tell it, if it asks for that, which part of a batch the next messages make, from its start on."""
        begin = getattr(self.operator.sink, BEGIN, None)
        if begin is not None:
            with self._explained(BEGIN):
                begin(part)

    def write(self, messages: Sequence[Message[Any]]) -> None:
        """Hand it the next messages."""
        with self._explained("write"):
            self.operator.sink.write(messages)

    def flush(self) -> None:
        """Return once all that was written is safe."""
        with self._explained("flush"):
            self.operator.sink.flush()

    def close(self, run: RunWork) -> None:
        """Free what `open` took. What was written since the last `flush` does not count as stored."""
        with self._explained("close"):
            try:
                self._wait_for(self.operator.sink.close(), run, CLOSE_SECONDS)
            except Expired:
                raise TimeoutError(f"it has not ended after {CLOSE_SECONDS:g} s") from None

    def _wait_for(self, result: Any, run: RunWork, seconds: float | None) -> None:
        """Wait until a method has ended, if it is asynchronous. Raises its error, and Expired after so many seconds;
        None for no limit."""

        async def ended() -> None:
            await result

        if inspect.isawaitable(result):
            abandoned = AbandonedCalls(1, self.operator.label, self.operator.origin)
            run(ended() if seconds is None else call_with_timeout(ended(), seconds, abandoned))

    def close_behind(self, run: RunWork, _: object, error: BaseException | None, __: object) -> None:
        """Close it behind a run that has ended, by an error or well; to be pushed on an ExitStack. Where the run has
        failed, one of its own is a warning: it must not hide the exit code that says whether to start again."""
        try:
            self.close(run)
        except SystemProblem as problem:
            if error is None:
                raise
            _log.warning("%s", problem)

    @contextmanager
    def _explained(self, method: str) -> Iterator[None]:
        try:
            yield
        # It says already where it comes from, and has an exit code of its own.
        except FluvialError:
            raise
        except Exception as error:
            if interruption(error):
                raise
            wrong = f"{self.operator.label} failed in {method}(): {error_text(error)}"
            remedy = remedy_for(error) if isinstance(error, OSError) else None
            remedy = remedy or f"mend the place that it writes to, or its {method}(), and start again"
            expected = f"a {method}() that succeeds, or tries again itself"
            raise SystemProblem(explain(wrong, expected, remedy, self.operator.origin)) from error


def open_sinks(plan: Plan, stack: ExitStack, run: RunWork, timeout: timedelta | None) -> None:
    """Open the sinks of a plan in order; `stack` closes them in reverse, those before one that fails to open too. `run`
    runs those of their methods that are asynchronous."""
    # An object may be the sink of several operators.
    by_object = {id(operator.sink): operator for operator in reversed(plan.pipeline.sinks)}
    for sink in map(ExplainedSink, reversed(by_object.values())):
        sink.open(run, timeout)
        stack.push(partial(sink.close_behind, run))
