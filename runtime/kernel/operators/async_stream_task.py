"""The calls of an asynchronous stream task: what comes of a message, until it counts."""

import asyncio
import inspect
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ....dsl.async_stream_task import AsyncStreamTask, TaskCallback, begins
from ....dsl.errors import UsageError
from ....dsl.functions import called_name
from ....dsl.processor import Tag
from ....dsl.stream_task import Envelope
from ....dsl.validation import explain
from .stream_task import AskedRequests, Outcome, SentValues, refuse_result


class CallOutcome(Outcome):
    """What comes of a message: the collector of its call, and its requests. Once the call has ended it waits until the
    message counts; what is sent or asked for then, by the functions that are applied, counts too."""

    def __init__(self, *, taken: bool) -> None:
        self.asked = AskedRequests(taken=taken)
        self._steps: list[tuple[Callable[..., None], tuple[Any, ...], Tag[Any] | None]] | None = []
        self._target: SentValues | None = None

    def send(self, value: Any, /, *, to: Tag[Any] | None = None) -> None:
        """Emit a value, by a side output if a tag is given."""
        if self._target is not None:
            self._target.send(value, to=to)
        else:
            self._add(_sent, (value,), to)

    def apply(self, change: Callable[..., None], /, *arguments: Any) -> None:
        """Call a function as the message counts."""
        if self._target is not None:
            _change(change, arguments)
        else:
            self._add(change, arguments, None)

    def _add(self, change: Callable[..., None], arguments: tuple[Any, ...], to: Tag[Any] | None) -> None:
        if self._steps is None:
            wrong = "a collector was used after the call of its message had ended"
            raise UsageError(explain(wrong, "values that are sent before", "await, or complete, what sends them"))
        self._steps.append((change, arguments, to))

    def end(self) -> "CallOutcome":
        """The call has ended."""
        self._ended, self._steps = self._steps or [], None
        self.asked.ended = True
        return self

    def count(self, collector: SentValues) -> None:
        """The message counts: send what was sent, and apply what is to be applied, in order."""
        self._target, self.asked.ended = collector, False
        try:
            for change, arguments, to in self._ended:
                if change is _sent:
                    collector.send(*arguments, to=to)
                else:
                    _change(change, arguments)
        finally:
            self._target, self.asked.ended = None, True


def _sent() -> None:
    """Stands for a value that is sent."""


def _change(change: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Apply a change. Raises UsageError for one that has only been made ready: nothing would await it, or iterate over
    it, and the message would count without it."""
    value: Any = change(*arguments)
    if value is None or not (inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)):
        return
    if inspect.iscoroutine(value):
        value.close()
    wrong = f"collector.apply got {called_name(change)}, which returns a {type(value).__name__}"
    raise UsageError(explain(wrong, "a plain function", "await in process, and apply what changes state"))


async def outcome_of(task: AsyncStreamTask[Any, Any, Any], envelope: Envelope[Any, Any], *, taken: bool) -> CallOutcome:
    """Hand a message to an asynchronous stream task, and wait until it is done."""
    outcome = CallOutcome(taken=taken)
    try:
        if begins(task):
            await _begun(task, envelope, outcome)
        else:
            method: Any = task.process
            refuse_result(method, await method(envelope, outcome, outcome.asked))
    except BaseException:
        outcome.end()  # what is sent later, as behind its timeout, must be refused, too: it would go nowhere
        raise
    return outcome.end()


async def _begun(task: AsyncStreamTask[Any, Any, Any], envelope: Envelope[Any, Any], outcome: CallOutcome) -> None:
    """Let a task begin to handle a message, and wait until it is told that the message is done."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[BaseException | None] = loop.create_future()

    def ended(error: BaseException | None) -> None:
        with suppress(RuntimeError):  # the loop is closed: the run has ended, and nobody waits
            loop.call_soon_threadsafe(_settle, done, error)

    method: Any = task.begin
    refuse_result(method, method(envelope, outcome, outcome.asked, TaskCallback(ended)))
    # A result, for there are exceptions that a future refuses.
    if (error := await done) is not None:
        raise error


def _settle(done: "asyncio.Future[BaseException | None]", error: BaseException | None) -> None:
    """Set the result of a message that has not been given up meanwhile, for its time was over."""
    if not done.done():
        done.set_result(error)
