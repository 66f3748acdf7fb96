"""What a processor keeps for each key: states, declared in its class, at work while it handles a message or timer."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, TypeVar, overload

import msgspec

from .annotations import TypeForm
from .errors import PipelineError, UsageError
from .serde import DECODABLE, Serde, checked_key, type_name
from .validation import explain, millis
from .verb_calls import explained_call

T = TypeVar("T")
S = TypeVar("S")
K = TypeVar("K")
V = TypeVar("V")

_MISSING: Any = object()


class KeptValue(Protocol[T]):
    """A value of the key at hand. What is read is the reader's own: only setting it counts."""

    @property
    def value(self) -> T:
        """The value that was set last, else the declared default."""
        ...

    @value.setter
    def value(self, value: T, /) -> None: ...

    def clear(self) -> None:
        """Forget the value: from then on it is the default."""
        ...


class KeptList(Protocol[T]):
    """A list of the key at hand. What is read is the reader's own: only the methods here change the list."""

    def append(self, item: T, /) -> None:
        """Add an item at the end."""
        ...

    def extend(self, items: Iterable[T], /) -> None:
        """Add items at the end, in their order."""
        ...

    def assign(self, items: Iterable[T], /) -> None:
        """Let the list hold these items and no others."""
        ...

    def clear(self) -> None:
        """Forget all items."""
        ...

    def __iter__(self) -> Iterator[T]: ...

    def __len__(self) -> int: ...


class State:
    """A state as it is declared: `name` is that of the attribute, `type` a type or Serde, `ttl` in ms or None."""

    def __init__(self, type: Any, ttl: timedelta | None) -> None:
        self.name = ""
        what = self.__class__.__name__  # `type` is the argument
        self.type = _checked(what, type)
        self.ttl = None if ttl is None else millis(f"{what}: ttl", ttl, least=1)

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    def declared(self, owner: object) -> Any:
        """The declaration itself, of a class. A processor that runs has its states as attributes of its own, which come
        before this; elsewhere there is no key at hand."""
        if owner is not None:
            raise used_outside(self.name)
        return self


@explained_call
class ValueState(State, Generic[T]):
    """A value per key: `self.name.value`, which is `default` until it is set. Setting None forgets it.

    `type` is a type that msgspec can decode, or a Serde. With `ttl` it is forgotten that long after it was set, in
    event time: see `KeyedProcessor`.

    >>> class Count(KeyedProcessor[str, str, int]):
    ...     seen = ValueState(int, 0)
    ...     def on_message(self, message: Message[str], context: Context[str]) -> Iterable[int]:
    ...         self.seen.value += 1
    ...         yield self.seen.value
    >>> pipeline = Pipeline("counts")
    >>> pipeline.stream("words", key=str, value=str).process(Count(), id="count").send_to("counts")
    >>> with PipelineDriver(pipeline) as driver:
    ...     for word in ("tea", "milk", "tea"):
    ...         driver.send("words", word, key=word)
    ...     [message.value for message in driver.read("counts")]
    [1, 1, 2]
    """

    @overload
    def __init__(self: "ValueState[S | None]", type: type[S] | Serde[S], *, ttl: timedelta | None = None) -> None: ...
    @overload
    def __init__(
        self: "ValueState[S]", type: type[S] | Serde[S], default: S, *, ttl: timedelta | None = None
    ) -> None: ...
    @overload
    def __init__(self: "ValueState[S | None]", type: TypeForm[S], *, ttl: timedelta | None = None) -> None: ...
    @overload
    def __init__(self: "ValueState[S]", type: TypeForm[S], default: S, *, ttl: timedelta | None = None) -> None: ...
    def __init__(self, type: Any, default: Any = _MISSING, *, ttl: timedelta | None = None) -> None:
        super().__init__(type, ttl)
        self.default = None if default is _MISSING else _checked_default(type, default)

    @overload
    def __get__(self, owner: None, type_: type, /) -> Self: ...
    @overload
    def __get__(self, owner: object, type_: type, /) -> KeptValue[T]: ...
    def __get__(self, owner: object, type_: type, /) -> Any:
        return self.declared(owner)


@explained_call
class ListState(State, Generic[T]):
    """A list per key: append, extend, iterate, `len`, `assign`, `clear`. With `ttl` all of it is forgotten that long
    after its last change.

    It is kept in pieces, so that appending writes little however long it is; iterating reads all of it.

    >>> class Last(KeyedProcessor[str, int, list[int]]):
    ...     seen = ListState(int)
    ...     def on_message(self, message: Message[int], context: Context[str]) -> Iterable[list[int]]:
    ...         self.seen.append(message.value)
    ...         self.seen.assign(list(self.seen)[-2:])
    ...         yield list(self.seen)
    >>> pipeline = Pipeline("last")
    >>> pipeline.stream("numbers", key=str, value=int).process(Last(), id="last").send_to("last")
    >>> with PipelineDriver(pipeline) as driver:
    ...     for number in (1, 2, 3):
    ...         driver.send("numbers", number, key="a")
    ...     driver.read("last")[-1].value
    [2, 3]
    """

    @overload
    def __init__(self, type: type[T] | Serde[T], *, ttl: timedelta | None = None) -> None: ...
    @overload
    def __init__(self, type: TypeForm[T], *, ttl: timedelta | None = None) -> None: ...
    def __init__(self, type: TypeForm[T] | Serde[T], *, ttl: timedelta | None = None) -> None:
        super().__init__(type, ttl)

    @overload
    def __get__(self, owner: None, type_: type, /) -> Self: ...
    @overload
    def __get__(self, owner: object, type_: type, /) -> KeptList[T]: ...
    def __get__(self, owner: object, type_: type, /) -> Any:
        return self.declared(owner)


@explained_call
class MapState(State, Generic[K, V]):
    """A mapping per key, with the methods of a `MutableMapping`; it goes in the order of its keys. With `ttl` each
    entry is forgotten that long after it was set.

    `key` is str, bytes, int, a tuple of them, or a Serde; `type` is as in `ValueState`. Looking up and setting an entry
    reads and writes that one; iterating and `len` read the names of all.

    >>> class Visits(KeyedProcessor[str, str, int]):
    ...     pages = MapState(str, int)
    ...     def on_message(self, message: Message[str], context: Context[str]) -> Iterable[int]:
    ...         self.pages[message.value] = self.pages.get(message.value, 0) + 1
    ...         yield max(self.pages.values())
    >>> pipeline = Pipeline("most")
    >>> pipeline.stream("clicks", key=str, value=str).process(Visits(), id="visits").send_to("most")
    >>> with PipelineDriver(pipeline) as driver:
    ...     for page in ("/a", "/b", "/a"):
    ...         driver.send("clicks", page, key="ann")
    ...     [message.value for message in driver.read("most")]
    [1, 1, 2]
    """

    @overload
    def __init__(self, key: type[K] | Serde[K], type: type[V] | Serde[V], *, ttl: timedelta | None = None) -> None: ...
    @overload
    def __init__(self, key: type[K] | Serde[K], type: TypeForm[V], *, ttl: timedelta | None = None) -> None: ...
    def __init__(self, key: type[K] | Serde[K], type: TypeForm[V] | Serde[V], *, ttl: timedelta | None = None) -> None:
        super().__init__(type, ttl)
        self.key: Any = checked_key("MapState", key)

    @overload
    def __get__(self, owner: None, type_: type, /) -> Self: ...
    @overload
    def __get__(self, owner: object, type_: type, /) -> MutableMapping[K, V]: ...
    def __get__(self, owner: object, type_: type, /) -> Any:
        return self.declared(owner)


class HoldsStates:
    """What has states as attributes of its class, which are not to be assigned to."""

    if not TYPE_CHECKING:  # type checkers would take any attribute for known

        def __setattr__(self, name: str, value: Any) -> None:
            if isinstance(getattr(type(self), name, None), State):
                raise assigned(self, name, value)
            super().__setattr__(name, value)


class ClockTimers:
    """Timers of a key by the clock: `self.name.set("flush", self.name.now + 5000)`, in ms since epoch. `on_timer` is
    called at that time, whether messages come or not, with a `Timer` whose `time_is` is "processing".

    A class has one attribute of it at most; those that have none need no clock, which on Spark saves a batch a second.

    >>> class Batch(KeyedProcessor[str, str, list[str]]):
    ...     words = ListState(str)
    ...     clock = ClockTimers()
    ...     def on_message(self, message: Message[str], context: Context[str]) -> None:
    ...         self.words.append(message.value)
    ...         self.clock.set("send", self.clock.now + 5_000)
    ...     def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[list[str]]:
    ...         found = list(self.words)
    ...         self.words.clear()
    ...         yield found
    >>> pipeline = Pipeline("batches")
    >>> pipeline.stream("words", key=str, value=str).process(Batch(), id="batch").send_to("batches")
    >>> with PipelineDriver(pipeline) as driver:
    ...     for word in ("tea", "milk"):
    ...         driver.send("words", word, key="a")
    ...     driver.advance(timedelta(seconds=5))
    ...     [message.value for message in driver.read("batches")]
    [['tea', 'milk']]
    """

    def __init__(self) -> None:
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = self.name or name

    @overload
    def __get__(self, owner: None, type_: type, /) -> Self: ...
    @overload
    def __get__(self, owner: object, type_: type, /) -> "KeptTimers": ...
    def __get__(self, owner: object, type_: type, /) -> Any:
        if owner is not None:
            raise used_outside(self.name)
        return self


class KeptTimers(Protocol):
    """Timers by the clock of the key at hand, as a processor that runs sees them."""

    @property
    def now(self) -> int:
        """The time of the clock, in ms since epoch."""
        ...

    def set(self, name: str, time: int) -> None:
        """Let `on_timer` be called at `time`, in ms since epoch; a timer by the clock of the key and name that was set
        before is no more. One that is set to a time that has passed is due at once after this call."""
        ...

    def delete(self, name: str) -> None:
        """Take a timer back, if it is set."""
        ...


def put_to_work(processor: object, states: Mapping[str, Any]) -> None:
    """Let the attributes of a processor, by name, be these states, which read and write the key at hand."""
    vars(processor).update(states)


def assigned(owner: object, name: str, value: object) -> UsageError:
    """The error of a state that is assigned to, in place of its value."""
    wrong = f"{type(owner).__name__}.{name} is a state, and was assigned {value!r}"
    return UsageError(explain(wrong, "a call of its methods", f"write self.{name}.value = ... or the like"))


def used_outside(name: str) -> UsageError:
    """The error of a state that is used while no key is at hand."""
    wrong = f"state {name!r} is used outside of on_message and on_timer, or of process"
    return UsageError(explain(wrong, "a use while a message or timer is handled", "read what you need of it there"))


def _checked(what: str, type_: Any) -> Any:
    try:
        if not isinstance(type_, Serde):
            msgspec.msgpack.Decoder(type_)
    except (TypeError, NotImplementedError) as error:
        wrong = f"{what}({type_name(type_)}): it cannot be kept: {error}"
        raise PipelineError(explain(wrong, "a type that msgspec can decode, or a Serde", DECODABLE)) from None
    return type_


def _checked_default(type_: Any, default: Any) -> Any:
    """A default as given, refused unless it can be kept like any other value."""
    try:
        if isinstance(type_, Serde):
            type_.decode(type_.encode(default))
        else:
            # Decoded as kept values are: a default of another type is refused here, not with some message.
            msgspec.msgpack.decode(msgspec.msgpack.encode(default), type=type_)
    except Exception as error:
        wrong = f"ValueState({type_name(getattr(type_, 'type', type_))}): default {default!r}: {error}"
        raise PipelineError(
            explain(wrong, "a value of that type", "correct the default, or leave it out: it is None then")
        ) from None
    return default
