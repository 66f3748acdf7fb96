"""What processors keep, and which timers are due: the oracle's half that knows processors.

The user's processor is the same; its states here are lists and dictionaries of plain values with the time of their last
write, copied as often as it takes.
"""

import copy
import math
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from fluvial.dsl import ListState, MapState, Message, Tagged, Timer, ValueState
from fluvial.dsl.keyed_state import State, put_to_work
from fluvial.dsl.message import Headers
from fluvial.dsl.operators import Process
from fluvial.dsl.processor import states_of


@dataclass(frozen=True)
class Emitted:
    """A value that is about to be emitted; `tag` is the name of a side output."""

    key: Any
    value: Any
    tag: str | None
    timestamp: int
    headers: Headers


@dataclass(frozen=True)
class DueTimer:
    """A timer that is about to be handled, at a time that is not before its own."""

    encoded: bytes
    key: Any
    name: str
    time: int
    now: int

    @property
    def timestamp(self) -> int:
        return self.time


@dataclass
class _Kept:
    """All that is kept: of each state by key, the value and the times of its writes; and of each timer its key, the
    time it is set to, and the watermark that it is not due before."""

    states: dict[tuple[str, bytes], Any] = field(default_factory=dict)
    timers: dict[tuple[bytes, str], tuple[Any, int, float]] = field(default_factory=dict)


class KeptProcess:
    """The states and timers of one processor over all keys, and the watermark that it has seen."""

    def __init__(self, operator: Process) -> None:
        self._kept = _Kept()
        self._processor = copy.copy(operator.processor)
        self.at = b""
        self.time: float = -math.inf
        self.watermark = -math.inf
        self._closing: list[tuple[bytes, str, int]] | None = None
        put_to_work(self._processor, {name: _MODELS[type(one)](self, one) for name, one in self._states()})
        self.timestamp = 0
        self.key: Any = None
        self.timers = self
        self._passed = self._reached = -math.inf

    def _states(self) -> Iterable[tuple[str, State]]:
        return states_of(self._processor).items()

    def kept_of(self, state: str) -> Any:
        return self._kept.states.get((state, self.at))

    def keep(self, state: str, value: Any) -> None:
        self._kept.states[state, self.at] = value

    def snapshot(self) -> Any:
        return copy.deepcopy(self._kept)

    def restore(self, snapshot: Any) -> None:
        self._kept = snapshot

    # What the processor sees as its context and its timers; `watermark` is there for both.

    def set(self, name: str, time: int) -> None:
        self._kept.timers[self.at, name] = (self.key, time, time if time > self._passed else self._reached + 1)

    def delete(self, name: str) -> None:
        self._kept.timers.pop((self.at, name), None)

    # What the interpreter asks.

    def take(self, encoded: bytes, message: Message[Any], _: int) -> list[Emitted]:
        """Let the processor handle a message."""
        seen = self.watermark
        self._reached = seen
        return self._handle(encoded, message.key, message, message.timestamp, message.headers, seen)

    def fire(self, due: DueTimer) -> list[Emitted]:
        """Let the processor handle a timer."""
        timer = Timer(due.name, due.time)
        return self._handle(due.encoded, due.key, timer, due.time, (), due.now)

    def _handle(
        self, encoded: bytes, key: Any, given: Any, timestamp: int, headers: Headers, now: float
    ) -> list[Emitted]:
        self.at, self.key, self.timestamp = encoded, key, timestamp
        self._passed, self.time = now, max(now, timestamp)
        before, self.watermark = self.watermark, now
        call = self._processor.on_timer if isinstance(given, Timer) else self._processor.on_message
        try:
            found = list(call(given, self) or ())  # type: ignore[arg-type]  # it has what a context has
        finally:
            self.watermark = before
        return [self._emitted(one, timestamp, headers) for one in found]

    def _emitted(self, one: Any, timestamp: int, headers: Headers) -> Emitted:
        if isinstance(one, Tagged):
            return Emitted(self.key, one.value, one.tag.name, timestamp, headers)
        return Emitted(self.key, one, None, timestamp, headers)

    def next_due(self, watermark: float) -> DueTimer | None:
        """The timer that is due next, if one is; it is no longer set."""
        if watermark == math.inf:
            return self._next_at_the_end()
        self._reached = watermark
        timers = self._kept.timers.items()
        found = sorted((at, time, key, name) for (key, name), (_, time, at) in timers if at <= watermark)
        for at, time, encoded, name in found[:1]:
            key, _, _ = self._kept.timers.pop((encoded, name))
            return DueTimer(encoded, key, name, time, int(at))
        return None

    def _next_at_the_end(self) -> DueTimer | None:
        """Those that are set when the input ends fire once, unless they are set anew meanwhile."""
        self._reached = self.watermark
        if self._closing is None:
            found = sorted((time, key, name) for (key, name), (_, time, _) in self._kept.timers.items())
            self._closing = [(encoded, name, time) for time, encoded, name in found]
        while self._closing:
            encoded, name, time = self._closing.pop(0)
            if self._kept.timers.get((encoded, name), (None, None))[1] == time:
                key, _, _ = self._kept.timers.pop((encoded, name))
                return DueTimer(encoded, key, name, time, int(max(time, self.watermark)))
        return None

    def advance(self, watermark: float) -> None:
        """Count the watermark as seen; the end of input does not move time."""
        if watermark < math.inf:
            self.watermark = watermark


class _Value:
    """A value: (time, value), or nothing."""

    def __init__(self, kept: KeptProcess, state: ValueState[Any]) -> None:
        self._kept, self._state = kept, state

    @property
    def value(self) -> Any:
        found = self._kept.kept_of(self._state.name)
        return copy.deepcopy(found[1] if _is_there(found, self._state, self._kept) else self._state.default)

    @value.setter
    def value(self, value: Any) -> None:
        kept = None if value is None else (self._kept.time, copy.deepcopy(value))
        self._kept.keep(self._state.name, kept)

    def clear(self) -> None:
        self.value = None


class _List:
    """A list: (time, items), or nothing."""

    def __init__(self, kept: KeptProcess, state: ListState[Any]) -> None:
        self._kept, self._state = kept, state

    def _items(self) -> list[Any]:
        found = self._kept.kept_of(self._state.name)
        return copy.deepcopy(found[1]) if _is_there(found, self._state, self._kept) else []

    def append(self, item: Any) -> None:
        self.extend([item])

    def extend(self, items: Iterable[Any]) -> None:
        added = list(items)
        if added:
            self.assign([*self._items(), *added])

    def assign(self, items: Iterable[Any]) -> None:
        found = copy.deepcopy(list(items))
        self._kept.keep(self._state.name, (self._kept.time, found) if found else None)

    def clear(self) -> None:
        self.assign([])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items())

    def __len__(self) -> int:
        return len(self._items())


class _Map(MutableMapping[Any, Any]):
    """A mapping: name -> (time, value)."""

    def __init__(self, kept: KeptProcess, state: MapState[Any, Any]) -> None:
        self._kept, self._state = kept, state

    def _all(self) -> dict[Any, Any]:
        """What is over for this reader may not be for one of an earlier time."""
        return dict(self._kept.kept_of(self._state.name) or {})

    def _entries(self) -> dict[Any, Any]:
        return {name: entry for name, entry in self._all().items() if _is_there(entry, self._state, self._kept)}

    def __getitem__(self, name: Any) -> Any:
        return copy.deepcopy(self._entries()[name][1])

    def __setitem__(self, name: Any, value: Any) -> None:
        self._kept.keep(self._state.name, {**self._all(), name: (self._kept.time, copy.deepcopy(value))})

    def __delitem__(self, name: Any) -> None:
        if name not in self._entries():
            raise KeyError(name)
        entries = self._all()
        del entries[name]
        self._kept.keep(self._state.name, entries)

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(self._entries()))

    def __len__(self) -> int:
        return len(self._entries())


def _is_there(entry: Any, state: State, kept: KeptProcess) -> bool:
    return entry is not None and (state.ttl is None or kept.time < entry[0] + state.ttl)


_MODELS: dict[type[State], Any] = {ValueState: _Value, ListState: _List, MapState: _Map}
