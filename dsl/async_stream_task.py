"""Asynchronous stream tasks: many messages of a task in flight at once, each of which counts whole or not at all."""

from collections.abc import Callable
from datetime import timedelta
from threading import Lock
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from .errors import PipelineError, UsageError
from .functions import check_call, is_asynchronous
from .keyed_state import HoldsStates
from .operators.calls import MOST_IN_FLIGHT, TIMEOUT
from .stream_task import Collector, Envelope, TaskCoordinator
from .validation import at_least_one, explain, millis, require

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
U = TypeVar("U")
U_contra = TypeVar("U_contra", contravariant=True)


class AsyncCollector(Collector[U_contra], Protocol[U_contra]):
    """Where an asynchronous stream task puts what comes of a message: a collector that also changes state. Nothing
    counts before the call has ended, and nothing if the message fails.

    >>> async def shout(envelope: Envelope[str, str], collector: AsyncCollector[str]) -> None:
    ...     collector.send(envelope.value.upper())
    """

    def apply(self, change: Callable[..., None], /, *arguments: Any) -> None:
        """Call the plain function `change(*arguments)` as the message counts: there, and only there, states are at
        hand."""
        ...


class TaskCallback:
    """Tells that a message is done, once, from any thread.

    >>> TaskCallback(lambda error: print("failed" if error else "done")).complete()
    done
    """

    def __init__(self, ended: Callable[[BaseException | None], None]) -> None:
        self._ended: Callable[[BaseException | None], None] | None = ended
        self._lock = Lock()

    def complete(self) -> None:
        """The message is done. Raises UsageError where that, or a failure, has been reported already."""
        self._end("complete", None)

    def fail(self, error: BaseException) -> None:
        """The message has failed, with an exception, or with UsageError for anything else. Raises UsageError where
        that, or that it is done, has been reported already."""
        given: Any = error
        if not isinstance(given, BaseException):  # the thread that reports it might have nobody to raise to
            error = UsageError(
                explain(f"callback.fail({given!r})", "an exception", "pass one, such as ValueError(...)")
            )
        self._end("fail", error)

    def _end(self, what: str, error: BaseException | None) -> None:
        with self._lock:  # of two threads one is first
            ended, self._ended = self._ended, None
        if ended is None:
            wrong = f"callback.{what} of a message that has been reported as done, or as failed"
            raise UsageError(explain(wrong, "one call for each message", "call it once"))
        ended(error)


class AsyncStreamTask(HoldsStates, Generic[K, V, U]):
    """What handles messages many at a time, as `StreamTask` does one by one; on the local engine.

    A subclass has `process`, an `async def`; or `begin`, a plain function that returns at once, and whose callback any
    thread may call later. At most `max_in_flight` messages of a task are in flight; each may take `timeout`, and has
    failed then. What comes of a message counts once its call has ended: what it sent, changes of state made by
    `collector.apply`, and requests. With state by key the messages of a key count in their order.

    >>> class Priced(AsyncStreamTask[str, str, str]):
    ...     max_in_flight = 20
    ...     spent = ValueState(int, 0)
    ...     async def process(
    ...         self, envelope: Envelope[str, str], collector: AsyncCollector[str], coordinator: TaskCoordinator
    ...     ) -> None:
    ...         await asyncio.sleep(1)  # a slow service
    ...         collector.apply(self.spend, collector, 3)
    ...     def spend(self, collector: AsyncCollector[str], price: int) -> None:
    ...         self.spent.value += price
    ...         collector.send(f"{self.spent.value} in all")
    >>> pipeline = Pipeline("priced")
    >>> pipeline.task(Priced, pipeline.stream("items", key=str, value=str), id="priced").send_to("spent")
    >>> with PipelineDriver(pipeline) as driver:
    ...     for item in ("tea", "milk"):
    ...         driver.send("items", item, key="ann")
    ...     driver.advance(timedelta(seconds=2))
    ...     [message.value for message in driver.read("spent")]
    ['3 in all', '6 in all']

    Source: Apache Samza's AsyncStreamTask.
    """

    max_in_flight: ClassVar[int] = MOST_IN_FLIGHT
    timeout: ClassVar[timedelta] = TIMEOUT

    async def process(
        self, envelope: Envelope[K, V], collector: AsyncCollector[U], coordinator: TaskCoordinator
    ) -> None:
        """Handle a message."""
        raise NotImplementedError

    def begin(
        self,
        envelope: Envelope[K, V],
        collector: AsyncCollector[U],
        coordinator: TaskCoordinator,
        callback: TaskCallback,
    ) -> None:
        """Begin to handle a message, in place of `process`; `callback` tells of its end."""
        raise NotImplementedError


def begins(task: AsyncStreamTask[Any, Any, Any]) -> bool:
    """Whether an asynchronous stream task has `begin`, and no `process`."""
    return type(task).begin is not AsyncStreamTask.begin


def check_async_task(what: str, task: AsyncStreamTask[Any, Any, Any]) -> None:
    """Refuse an asynchronous stream task that cannot be put to work."""
    cls = type(task)
    both = begins(task) == (cls.process is not AsyncStreamTask.process)
    remedy = "write async def process(self, envelope, collector, coordinator); or begin, with a callback besides"
    wrong = f"{what}: {cls.__name__} has {'process and begin' if begins(task) else 'neither process nor begin'}"
    require(not both, PipelineError, wrong, "one of the two", remedy)
    name, good = (
        ("begin", not is_asynchronous(task.begin)) if begins(task) else ("process", is_asynchronous(task.process))
    )
    kind = "a plain function" if begins(task) else "an async def"
    require(good, PipelineError, f"{what}: {cls.__name__}.{name}", kind, remedy)
    takes = ("envelope", "collector", "coordinator", *(("callback",) if begins(task) else ()))
    check_call(f"{what}: {name}", getattr(task, name), *takes, of="a method")
    at_least_one(f"{what}: {cls.__name__}.max_in_flight", task.max_in_flight, "messages")
    millis(f"{what}: {cls.__name__}.timeout", task.timeout, least=1)
