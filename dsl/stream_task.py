"""Stream tasks: code of the user's that is handed each message of a task of the runtime, with the place where it was
read, keeps state, and asks for commits and for the end of the run."""

from typing import Any, Generic, Literal, Protocol, TypeVar, overload

from msgspec import Struct

from .keyed_state import HoldsStates
from .message import Headers
from .processor import Tag

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
U = TypeVar("U")
K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)
U_contra = TypeVar("U_contra", contravariant=True)

Scope = Literal["task", "all"]
"""Whom a request is for: the task that makes it, or all tasks of its container."""

HOOKS = ("init", "window", "on_end_of_stream", "on_drain", "close")
"""The methods that a stream task may have besides `process`."""
OF_THE_TASK = ("window", "on_end_of_stream", "on_drain")
"""Those that are called for the whole task, with no key at hand."""


class Envelope(Struct, Generic[K_co, V_co], frozen=True, gc=False):
    """A message with the place where it was read.

    `key` is the decoded key of a keyed stream, else the key's bytes, or None; `timestamp` is its event time in ms since
    epoch. `input` tells which of the `inputs=` of the task it is of, from 0. `stream`, `partition` and `offset` are
    None for what an operator before the task has made, such as a pane; on Spark partition and offset always are, for
    a message comes there through a shuffle.

    >>> Envelope("ann", "/home", 1_700_000_000_000, stream="clicks", partition=0, offset=17).offset
    17
    """

    key: K_co
    value: V_co
    timestamp: int
    headers: Headers = ()
    input: int = 0
    stream: str | None = None
    partition: int | None = None
    offset: int | None = None


class Collector(Protocol[U_contra]):
    """Where a stream task sends what it emits. If the call raises, nothing is sent, and no state changes. An error in
    an operator behind the task fails that output alone.

    >>> def shout(envelope: Envelope[str, str], collector: Collector[str]) -> None:
    ...     collector.send(envelope.value.upper())
    """

    @overload
    def send(self, value: U_contra, /) -> None: ...
    @overload
    def send(self, value: T, /, *, to: Tag[T]) -> None: ...
    def send(self, value: Any, /, *, to: Tag[Any] | None = None) -> None:
        """Emit a value with the key, timestamp and headers of the message at hand; with `to=` by the side output of a
        tag of the class. In `window`, and at an end, it has no key and no headers, and the time of the call."""
        ...


class TaskCoordinator(Protocol):
    """Takes what a stream task asks of the run. A request counts once the message that made it has landed, and all
    before it in its partition; that of a message which fails counts for nothing. Not on Spark.

    >>> def end_of(day: str, coordinator: TaskCoordinator) -> None:
    ...     coordinator.commit("all")
    ...     coordinator.shutdown()
    """

    def commit(self, scope: Scope = "task") -> None:
        """Ask for a commit soon, of this task or of all tasks of its container. It has the message that asks."""
        ...

    def shutdown(self, scope: Scope = "task") -> None:
        """Vote for the end of the run in this container, which ends once each of its stream tasks has voted; or with
        "all" end it at once. It is a clean end: commits that were asked for come first, what is in flight lands, and
        all tasks commit."""
        ...


class TaskContext(Struct, frozen=True):
    """Which task of the run it is: its `name`, such as "clicks/0", and the number of the partition that it reads.

    >>> TaskContext("clicks/0", 0).name
    'clicks/0'
    """

    name: str
    partition: int


class StreamTask(HoldsStates, Generic[K, V, U]):
    """What handles messages one at a time: keys of type K, values of type V in, of type U out.

    Each task of the run makes one of its own, by the factory that `Pipeline.task` was given. A subclass says what it
    keeps as attributes of the class (`ValueState`, `ListState`, `MapState`), and where it emits besides (`Tag`). Under
    `state="key"` these are the states of the key at hand; under `state="task"` they are of the whole task. If a method
    raises, nothing of that call stays: no state, no output, no request.

    Besides `process` a class may have these methods. They are never called while another one runs.

    - `init(self, context)`: before the first message, with the `TaskContext`
    - `window(self, collector, coordinator)`: each `window=` of the clock
    - `on_end_of_stream(self, collector, coordinator)`: once all inputs of the task have ended; a commit follows
    - `on_drain(self, collector, coordinator)`: in its place, where the run ends since it was told to drain
    - `close(self)`: as the task ends, unless its process dies

    >>> class Chunks(StreamTask[bytes | None, str, str]):
    ...     words = ListState(str)
    ...     def process(
    ...         self, envelope: Envelope[bytes | None, str], collector: Collector[str], coordinator: TaskCoordinator
    ...     ) -> None:
    ...         self.words.append(envelope.value)
    ...         if len(self.words) == 2:
    ...             collector.send(" ".join(self.words))
    ...             self.words.clear()
    ...             coordinator.commit()
    >>> pipeline = Pipeline("chunks")
    >>> pipeline.task(Chunks, pipeline.stream("words", value=str), id="chunks").send_to("chunks")
    >>> with PipelineDriver(pipeline) as driver:
    ...     for word in ("to", "be", "or"):
    ...         driver.send("words", word)
    ...     [message.value for message in driver.read("chunks")]
    ['to be']

    Source: Apache Samza's low-level task API.
    """

    def process(self, envelope: Envelope[K, V], collector: Collector[U], coordinator: TaskCoordinator) -> None:
        """Handle a message."""
        raise NotImplementedError


def hooks_of(task: HoldsStates) -> tuple[str, ...]:
    """The methods besides `process` that a stream task has."""
    return tuple(name for name in HOOKS if callable(getattr(task, name, None)))
