"""A stream task in one task of a stage: the user's code on the state of a processor, by key or of the whole task."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ....dsl.errors import UsageError
from ....dsl.functions import called_name
from ....dsl.message import Headers, Message
from ....dsl.operators import Task
from ....dsl.processor import Tag
from ....dsl.stream_task import Envelope, Scope, hooks_of
from ....dsl.validation import explain
from ...process.interruptions import INTERRUPTIONS
from ..state_backend import Change
from ..state_cache import WriteBackCache
from ..task_requests import HookCall, MessagePlace, RunRequest
from ..time.bounds import END, START
from .processor import EmitMessage, ProcessContext, ProcessOperator

TASK_KEY = b""
"""The key of state that is of the whole task."""


class SentValues:
    """The collector of a stream task: what it sends during one call."""

    def __init__(self) -> None:
        self._values: list[Any] | None = None

    def send(self, value: Any, /, *, to: Tag[Any] | None = None) -> None:
        """Emit a value, by a side output if a tag is given. Raises UsageError outside of a call of the task."""
        if self._values is None:
            wrong = "collector.send after the call that it was given to had returned"
            raise UsageError(explain(wrong, "values that are sent while a message is handled", "send them there"))
        self._values.append(value if to is None else to(value))

    def begin(self) -> None:
        """A call begins: gather what it sends, until `end`."""
        self._values = []

    def end(self) -> list[Any]:
        """The call has ended. Returns what it has sent, in that order."""
        values, self._values = self._values or [], None
        return values


def refuse_result(method: Callable[..., Any], result: object) -> None:
    """Raise UsageError for what a method of a stream task returns, as one of a processor would: it goes nowhere."""
    if result is not None:
        wrong = f"{called_name(method)} of a stream task returned {result!r:.80}"
        raise UsageError(explain(wrong, "a method that returns None", "send values with collector.send(value)"))


class AskedRequests:
    """The coordinator of a stream task: what it asks for during one call. The last request of each kind counts."""

    ended = False
    """Whether the call is over, so that nobody takes another request."""

    def __init__(self, *, taken: bool) -> None:
        self._taken = taken
        self._commit: Scope | None = None
        self._shutdown: Scope | None = None

    def commit(self, scope: Scope = "task") -> None:
        """Ask for a commit of the task, or of `"all"` tasks of the container, once the message has landed."""
        self._commit = self._checked("commit", scope)

    def shutdown(self, scope: Scope = "task") -> None:
        """Vote for the end of the run in the container, or with `"all"` ask for it."""
        self._shutdown = self._checked("shutdown", scope)

    def _checked(self, what: str, scope: Scope) -> Scope:
        if scope not in ("task", "all"):
            remedy = f'write coordinator.{what}("all"), or leave it out'
            raise UsageError(explain(f"coordinator.{what}({scope!r})", '"task" or "all"', remedy))
        if not self._taken:
            wrong = f"coordinator.{what} on Spark, whose batches commit, and end, by themselves"
            raise UsageError(explain(wrong, "the local engine", "leave it out, or run the pipeline there"))
        if self.ended:
            wrong = f"coordinator.{what} after the call of its message had ended"
            raise UsageError(explain(wrong, "requests that are made before", "await, or complete, what makes them"))
        return scope

    def take(self, place: Callable[[], MessagePlace]) -> RunRequest | None:
        """What was asked for since the last call, by the message of a place; None if nothing was."""
        if self._commit is None and self._shutdown is None:
            return None
        request, self._commit, self._shutdown = RunRequest(self._commit, self._shutdown, place()), None, None
        return request

    def take_over(self, other: "AskedRequests") -> None:
        """Ask for what another one has asked for, as its message counts."""
        self._commit, self._shutdown = other._commit, other._shutdown

    def forget(self) -> None:
        """Forget what was asked for: the call failed."""
        self._commit = self._shutdown = None


class Outcome(ABC):
    """What has come of a message in an asynchronous call, and counts now."""

    asked: AskedRequests

    @abstractmethod
    def count(self, collector: SentValues) -> None:
        """Send and change what the call has left."""


@dataclass(frozen=True, slots=True)
class TaskSurroundings:
    """What a stream task needs besides what a processor does: decoders of the keys of each input, where the message at
    hand was read, what takes requests, and whether the run was told to drain."""

    decode_keys: Sequence[Callable[[bytes], Any]]
    place: Callable[[], MessagePlace]
    note: Callable[[RunRequest], None]
    taken: bool
    drained: Callable[[], bool]


class StreamTaskOperator:
    """A stream task of the user's in one task, with the states, outputs and ends of a processor."""

    def __init__(
        self,
        operator: Task,
        task: Any,
        context_of: Callable[..., ProcessContext],
        emit: EmitMessage,
        around: TaskSurroundings,
    ) -> None:
        self._operator, self.task, self._around = operator, task, around
        self._hooks = hooks_of(task)
        self._collector, self._coordinator = SentValues(), AskedRequests(taken=around.taken)
        self._key: bytes | None = None
        self._input = 0
        self._tick: int | None = None
        at_end = "on_end_of_stream" in self._hooks or "on_drain" in self._hooks
        self._context = context_of(
            self._keyed(emit),
            handler=task,
            on_message=self._process,
            on_timer=_nothing,
            answered=False,
            decode_key=around.decode_keys[0] if operator.by_key else bytes,
            at_end=self._end if at_end else None,
        )
        self._inner = ProcessOperator(self._context)
        self.changes: Callable[[], Iterator[Change]] = self._inner.changes
        self.mark_committed, self.caches = self._inner.mark_committed, self._caches
        self.undo, self.next_due = self._inner.undo, self._inner.next_due

    def _caches(self) -> Iterable[WriteBackCache]:
        return self._inner.caches()

    def _keyed(self, emit: EmitMessage) -> EmitMessage:
        """Emits with the key of the message at hand, which is not that of the state if that is of the whole task."""
        if self._operator.by_key:
            return emit

        def emit_with_key(_: bytes, value: Any, timestamp: int, headers: Headers) -> None:
            # Only what follows needs bytes: a message of a stream without key may have none.
            emit(self._key, value, timestamp, headers)  # type: ignore[arg-type]

        return emit_with_key

    def attach_side(self, tag: str, emit: EmitMessage) -> None:
        """Pass on by `emit` what is sent with a tag."""
        self._inner.attach_side(tag, self._keyed(emit))

    def add(
        self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int, side: int = 0
    ) -> None:
        """Hand a message to the task."""
        self._key, self._input = key, side
        self._inner.add(key if self._operator.by_key else TASK_KEY, value, timestamp, headers, watermark)
        self._note()

    def _note(self) -> None:
        if (request := self._coordinator.take(self._around.place)) is not None:
            self._around.note(request)

    def _process(self, message: Message[Any], _: Any) -> list[Any]:
        if isinstance(message.value, Outcome):
            return self._call(partial(self._count, message.value))
        key = self._key
        name = None if key is None else self._around.decode_keys[self._input](key)
        place = self._around.place()
        envelope = Envelope(name, message.value, message.timestamp, message.headers, self._input, *place)
        return self._call(self.task.process, envelope)

    def _count(self, outcome: Outcome, collector: SentValues, coordinator: "AskedRequests") -> None:
        """A message whose call has ended counts."""
        outcome.count(collector)
        coordinator.take_over(outcome.asked)

    def _call(self, method: Callable[..., Any], *given: Any) -> list[Any]:
        """Call a method of the task; returns what it has sent."""
        self._coordinator.forget()
        self._collector.begin()
        try:
            refuse_result(method, method(*given, self._collector, self._coordinator))
        except BaseException:
            self._coordinator.forget()
            raise
        finally:
            sent = self._collector.end()
        return sent

    def init(self, given: Any) -> None:
        """Let the task begin; states that are of the whole task are at hand."""
        method: Any = getattr(self.task, "init", None)
        if method is not None and self._operator.by_key:
            method(given)
        elif method is not None:
            time = self._inner.scope.time = max(self._inner.passed, self._context.clock())
            self._inner.run(lambda one, _: method(one), given, TASK_KEY, None, time, self._inner.passed)

    def close(self) -> None:
        """Let the task end."""
        method: Any = getattr(self.task, "close", None)
        if method is not None:
            method()

    def due(self) -> int:
        """The next time of the clock at which `window` is to be called."""
        return END if self._tick is None or self._inner.ended else self._tick

    def fire_by_clock(self, now: int) -> bool:
        """Call `window` if it is due, once for however many of its times have passed. The first time is one interval
        after the start."""
        interval = self._operator.window
        assert interval is not None
        if self._tick is None:
            self._tick = now + interval
        elif now >= self._tick and not self._inner.ended:
            self._tick += interval * ((now - self._tick) // interval + 1)
            self._run_hook("window", now)
        return True

    def _end(self) -> None:
        """The input has ended, or the run that was told to drain."""
        hook = "on_drain" if self._around.drained() else "on_end_of_stream"
        if hook in self._hooks:
            reached = self._inner.passed
            self._run_hook(hook, reached if reached > START else max(0, self._context.clock()))

    def _run_hook(self, name: str, time: int) -> None:
        """Call a method of the whole task, as a dispatch of its own."""
        self._key = None
        method: Any = getattr(self.task, name)
        self._inner.scope.time = max(time, self._inner.passed)
        try:
            call = lambda _, __: self._call(method)  # noqa: E731 - as the processor calls methods
            sent = self._inner.run(call, None, TASK_KEY, None, time, self._inner.passed)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            self._context.fail(TASK_KEY, HookCall(name), time, error)  # type: ignore[arg-type]
        else:
            self._inner.emit(TASK_KEY, sent, time, ())
            self._note()

    def advance(self, watermark: int) -> bool:
        """Delete what has expired; at the end of input call the method for it."""
        return self._inner.advance(watermark)

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._inner.changed


def _nothing(*_: Any) -> None:
    return None
