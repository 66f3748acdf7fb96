"""Processors: code of the user's that keeps state for each key, sets timers, and emits what it likes."""

import inspect
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Literal, Protocol, TypeVar

from msgspec import Struct

from .annotations import TypeForm
from .errors import PipelineError
from .functions import check_call, gives_list_or_none
from .keyed_state import ClockTimers, HoldsStates, State
from .message import Message
from .serde import Serde, checked_value
from .validation import explain, operator_id, require
from .verb_calls import explained_call

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
K_co = TypeVar("K_co", covariant=True)
K_contra = TypeVar("K_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)
U_co = TypeVar("U_co", covariant=True)


class Tagged(Struct, Generic[T_co], frozen=True, gc=False):
    """A value on its way to a side output: what calling a `Tag` gives.

    >>> Tag("alerts", str)("too hot").value
    'too hot'
    """

    tag: "Tag[Any]"
    value: T_co


@explained_call
@dataclass(frozen=True, slots=True)
class Tag(Generic[T]):
    """The name of a side output and the type of what goes there: an attribute of the processor's class.

    >>> Tag("alerts", str)
    Tag(name='alerts', type=<class 'str'>)
    """

    name: str
    type: TypeForm[T] | Serde[T]

    def __post_init__(self) -> None:
        operator_id(self.name, "tag name")
        checked_value(f"Tag {self.name!r}", self.type)

    def __call__(self, value: T) -> Tagged[T]:
        """The value, to be emitted by the processor's side output."""
        return Tagged(self, value)


class Timer(Struct, frozen=True, gc=False):
    """A timer that is due: its name, and the time it was set to, in ms since epoch, which is event time, or
    "processing" time where it was set by `ClockTimers`.

    >>> Timer("quiet", 1_700_000_000_000).time_is
    'event'
    """

    name: str
    time: int
    time_is: Literal["event", "processing"] = "event"


class KeyTimers(Protocol):
    """The timers of the key at hand, in event time."""

    def set(self, name: str, time: int) -> None:
        """Let `on_timer` be called once the watermark is at `time`, in ms since epoch; a timer of the key and name that
        was set before is no more. One that is set to a time that has passed is due when time next moves on."""
        ...

    def delete(self, name: str) -> None:
        """Take a timer back, if it is set."""
        ...


class Context(Protocol[K_co]):
    """Where a processor is: the key at hand, and time. Valid until the call returns.

    `timestamp` is that of the message, or the time of the timer; `watermark` is what event time is believed to have
    passed, both in ms since epoch. Before any message tells time, the watermark is -2**63.

    >>> def minute_after(context: Context[str]) -> int:
    ...     return context.timestamp + 60_000
    """

    @property
    def key(self) -> K_co:
        """The key of the message or timer at hand, decoded."""
        ...

    @property
    def timestamp(self) -> int:
        """The time of the message or timer, in ms since epoch."""
        ...

    @property
    def watermark(self) -> int:
        """The watermark: how far event time has come in the task, in ms since epoch."""
        ...

    @property
    def timers(self) -> KeyTimers:
        """The timers of the key at hand, in event time: to set one, and to take it back."""
        ...


class KeyedProcessor(HoldsStates, Generic[K_contra, V_contra, U_co]):
    """What handles the messages of each key, one at a time: keys of type K, values of type V in, of type U out.

    A subclass says what it keeps as attributes of the class (`ValueState`, `ListState`, `MapState`), and where it emits
    besides (`Tag`). What its methods return or yield is emitted. If one of them raises, nothing of that call stays: no
    state, no timer, no output. Each task works on a copy of its own, made by `copy.copy`; attributes other than states
    are not kept. If it has `open` and `close`, asynchronous or not, each process calls `open` before these copies are
    made, and `close` at the end.

    A state with `ttl` reads as absent from that long after its last write, and is then removed. The time of a write,
    and of a read, is the message's timestamp, or the watermark if that is later; in `on_timer` the timer's time.

    >>> class Quiet(KeyedProcessor[str, float, str]):
    ...     alerts = Tag("alerts", float)
    ...     def on_message(
    ...         self, message: Message[float], context: Context[str]
    ...     ) -> Iterable[str | Tagged[float]]:
    ...         context.timers.set("quiet", message.timestamp + 60_000)
    ...         if message.value > 90:
    ...             yield self.alerts(message.value)
    ...     def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:
    ...         return [f"{context.key} is quiet"]
    >>> pipeline = Pipeline("quiet")
    >>> quiet = pipeline.stream("celsius", key=str, value=float).process(Quiet(), id="quiet")
    >>> quiet.send_to("quiet")
    >>> quiet.tagged(Quiet.alerts).send_to("alerts")
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.send("celsius", 91.5, key="oven", timestamp=0)
    ...     driver.send("celsius", 20.5, key="hall", timestamp=60_000)
    ...     [[message.value for message in driver.read(name)] for name in ("quiet", "alerts")]
    [['oven is quiet'], [91.5]]

    Source: Flink's KeyedProcessFunction; Samza's low-level task.
    """

    def on_message(self, message: Message[V_contra], context: Context[K_contra]) -> Iterable[U_co | Tagged[Any]] | None:
        """Handle a message; what it gives is emitted with the message's timestamp and headers."""
        raise NotImplementedError

    def on_timer(
        self,
        timer: Timer,  # noqa: ARG002 - for those who set no timers
        context: Context[K_contra],  # noqa: ARG002 - the same
    ) -> Iterable[U_co | Tagged[Any]] | None:
        """Handle a timer that is due; what it gives is emitted with the timer's time and no headers."""
        return None


def states_of(processor: HoldsStates) -> dict[str, State]:
    """The states that a processor's class declares, by name."""
    return {name: value for name, value in _attributes(processor).items() if isinstance(value, State)}


def clock_of(processor: HoldsStates) -> str | None:
    """The attribute by which a processor sets timers by the clock, if it has one."""
    return next((name for name, value in _attributes(processor).items() if isinstance(value, ClockTimers)), None)


def answers_timers(processor: KeyedProcessor[Any, Any, Any]) -> bool:
    """Whether a processor has an `on_timer` of its own: a timer that nothing answers would be lost without a word."""
    return type(processor).on_timer is not KeyedProcessor.on_timer


def tags_of(processor: HoldsStates) -> dict[str, Tag[Any]]:
    """The tags that a processor's class declares, by their own names."""
    return {tag.name: tag for tag in _attributes(processor).values() if isinstance(tag, Tag)}


def checked_processor(what: str, processor: Any) -> KeyedProcessor[Any, Any, Any]:
    """A processor as given, refused unless it can be put to work."""
    if isinstance(processor, type):
        remedy = f"pass an instance: {processor.__name__}()"
        raise PipelineError(explain(f"{what} got the class {processor.__name__}", "a KeyedProcessor", remedy))
    wrong, remedy = f"{what} got {processor!r}", "write class Mine(KeyedProcessor[str, int, int]) with on_message"
    require(isinstance(processor, KeyedProcessor), PipelineError, wrong, "a KeyedProcessor", remedy)
    cls = type(processor)
    if cls.on_message is KeyedProcessor.on_message:
        remedy = "write def on_message(self, message, context)"
        raise PipelineError(explain(f"{what}: {cls.__name__} has no on_message", "a method on_message", remedy))
    # A coroutine would be emitted as a value, and nobody would await it.
    for method in (cls.on_message, cls.on_timer):
        called = inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)
        wrong = f"{what}: {method.__qualname__} is asynchronous"
        remedy = "make calls with async_flat_map, before or behind"
        require(not called, PipelineError, wrong, "a plain function or generator", remedy)
    check_call(f"{what}: on_message", processor.on_message, "message", "context", of="a method")
    check_call(f"{what}: on_timer", processor.on_timer, "timer", "context", of="a method")
    for method in (processor.on_message, processor.on_timer):
        gives_list_or_none(
            f"{what}: {method.__name__}", method, "return [value], or yield it, and annotate Iterable[...]"
        )
    checked: KeyedProcessor[Any, Any, Any] = processor
    check_attributes(what, checked)
    return checked


def check_attributes(what: str, processor: HoldsStates) -> None:
    """Refuse states, tags and timers of an instance, and such as are declared twice."""
    owner = type(processor).__name__
    for name, attribute in vars(processor).items():
        if isinstance(attribute, State | Tag | ClockTimers):
            wrong = f"{what}: {owner}.{name} is a {type(attribute).__name__} of the instance"
            raise PipelineError(explain(wrong, "an attribute of the class", "declare it in the class, not in __init__"))
    tags: dict[str, str] = {}
    clocks = [name for name, attribute in _attributes(processor).items() if isinstance(attribute, ClockTimers)]
    wrong = f"{what}: {owner} has {' and '.join(clocks)}, which are all ClockTimers()"
    require(
        len(clocks) < 2, PipelineError, wrong, "one attribute of that kind", "give timers names, set by one of them"
    )
    for name, attribute in _attributes(processor).items():
        if isinstance(attribute, State) and attribute.name != name:
            wrong = f"{what}: {owner}.{name} is the same state as {owner}.{attribute.name}"
            raise PipelineError(explain(wrong, "a state of its own", "declare each with a call of its own"))
        if isinstance(attribute, Tag) and (other := tags.setdefault(attribute.name, name)) != name:
            wrong = f"{what}: the tags {owner}.{other} and {owner}.{name} are both named {attribute.name!r}"
            raise PipelineError(explain(wrong, "a name for each side output", "rename one of them"))


def _attributes(processor: object) -> dict[str, Any]:
    """All attributes of an object's classes, those of a base before those of what is derived from it."""
    attributes: dict[str, Any] = {}
    # Reversed, so that a derived class overrides what its bases declare.
    for cls in reversed(type(processor).__mro__):
        attributes.update(vars(cls))
    return attributes
