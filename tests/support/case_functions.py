"""The functions that random pipelines are made of: closures over a small int, by name; some raise for some events."""

import asyncio
import bisect
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from fluvial.dsl import Aggregate, Message, Pane, aggregate, collect, count, maximum, mean, minimum, reduce, total


@dataclass(frozen=True, slots=True)
class Event:
    """What flows through a random pipeline: a word of a few, a number, and when."""

    k: str
    n: int
    at: int


class Refused(Exception):
    """Raised on purpose."""


def refuse(event: Event, number: int) -> None:
    """Raise for one event in every number + 2, told by its value alone."""
    if event.n % (number + 2) == 1:
        raise Refused(f"n={event.n}")


# map: Event -> Event


def plus(number: int) -> Callable[[Event], Event]:
    def add(event: Event) -> Event:
        return dataclasses.replace(event, n=event.n + number)

    return add


def times(number: int) -> Callable[[Event], Event]:
    def multiply(event: Event) -> Event:
        return dataclasses.replace(event, n=event.n * number)

    return multiply


def renamed(number: int) -> Callable[[Event], Event]:
    def rename(event: Event) -> Event:
        return dataclasses.replace(event, k="xyz"[event.n % (number % 3 + 1)])

    return rename


def map_fails(number: int) -> Callable[[Event], Event]:
    def pass_on(event: Event) -> Event:
        refuse(event, number)
        return event

    return pass_on


MAPS = {"plus": plus, "times": times, "renamed": renamed}
FAILING_MAPS = {"fails": map_fails}


def or_none(number: int) -> Callable[[Event], Event | None]:
    """A value to delete by, for some events."""

    def choose(event: Event) -> Event | None:
        return None if event.n % (number + 1) == 0 else event

    return choose


def text(_: int) -> Callable[[Event], str]:
    def write(event: Event) -> str:
        return f"{event.k} {event.n}"

    return write


def data(_: int) -> Callable[[Event], bytes]:
    def write(event: Event) -> bytes:
        return b"\xff%d" % event.n

    return write


def untold(_: int) -> Callable[[Event], Any]:
    """Text that nothing tells to be text; it is written as JSON."""
    return lambda event: f"{event.k} {event.n}"


FORMS: dict[str, Callable[[int], Callable[[Event], Any]]] = {
    "or_none": or_none,
    "text": text,
    "data": data,
    "untold": untold,
}
"""What events may be turned into where nothing but an output follows."""


# filter: Event -> truth


def above(number: int) -> Callable[[Event], object]:
    def test(event: Event) -> object:
        return event.n > number

    return test


def indivisible(number: int) -> Callable[[Event], object]:
    """True as Python has it, not as `bool`."""

    def test(event: Event) -> object:
        return event.n % (number + 2)

    return test


def filter_fails(number: int) -> Callable[[Event], object]:
    def test(event: Event) -> object:
        refuse(event, number)
        return True

    return test


FILTERS = {"above": above, "indivisible": indivisible}
FAILING_FILTERS = {"fails": filter_fails}


# flat_map: Event -> events; `expansion` is the most of them for a number


def expansion(number: int) -> int:
    return max(1, number % 4)


def copies(number: int) -> Callable[[Event], list[Event]]:
    def copy(event: Event) -> list[Event]:
        return [dataclasses.replace(event, n=event.n + step) for step in range(number % 4)]

    return copy


def generated(number: int) -> Callable[[Event], Iterator[Event]]:
    def generate(event: Event) -> Iterator[Event]:
        for step in range(min(number % 4, event.n % 4)):
            yield dataclasses.replace(event, n=event.n - step)

    return generate


def flat_map_fails(number: int) -> Callable[[Event], Iterator[Event]]:
    """Raises when some of the results have been taken."""

    def generate(event: Event) -> Iterator[Event]:
        yield event
        refuse(event, number)

    return generate


FLAT_MAPS: dict[str, Callable[[int], Callable[[Event], Any]]] = {"copies": copies, "generated": generated}
FAILING_FLAT_MAPS: dict[str, Callable[[int], Callable[[Event], Any]]] = {"fails": flat_map_fails}


def awaited(name: str, number: int, waits: bool) -> Callable[[Event], Awaitable[list[Event]]]:
    """The flat_map of that name as a coroutine function; where it waits, others get their turn."""
    fn = (FLAT_MAPS | FAILING_FLAT_MAPS)[name](number)

    async def call(event: Event) -> list[Event]:
        for _ in range(event.n % 3 + 1 if waits else 0):
            await asyncio.sleep(0)
        return list(fn(event))

    return call


# map_messages: Message[Event] -> Message[Event]


def later(number: int) -> Callable[[Message[Event]], Message[Event]]:
    def shift(message: Message[Event]) -> Message[Event]:
        return Message(message.key, message.value, message.timestamp + number, message.headers)

    return shift


def earlier(number: int) -> Callable[[Message[Event]], Message[Event]]:
    def shift(message: Message[Event]) -> Message[Event]:
        return Message(message.key, message.value, message.timestamp - number, message.headers)

    return shift


def rekeyed(number: int) -> Callable[[Message[Event]], Message[Event]]:
    """Another key, of another type for each number; none for some."""

    def give(message: Message[Event]) -> Message[Event]:
        event = message.value
        key: object = (event.k, event.n, (event.k, event.n), None, event.k.encode())[number % 5]
        return Message(key, event, message.timestamp, message.headers)

    return give


def headed(number: int) -> Callable[[Message[Event]], Message[Event]]:
    def add(message: Message[Event]) -> Message[Event]:
        return Message(message.key, message.value, message.timestamp, (*message.headers, ("seen", b"%d" % number)))

    return add


def messages_fail(number: int) -> Callable[[Message[Event]], Message[Event]]:
    def pass_on(message: Message[Event]) -> Message[Event]:
        refuse(message.value, number)
        return message

    return pass_on


MESSAGES = {"later": later, "rekeyed": rekeyed, "headed": headed}
FAILING_MESSAGES = {"fails": messages_fail}
BACKWARD_MESSAGES = {"earlier": earlier}


# keys, by their type


def word(_: int) -> Callable[[Event], Any]:
    def key(event: Event) -> str:
        return event.k

    return key


def word_or_none(number: int) -> Callable[[Event], Any]:
    def key(event: Event) -> str | None:
        return None if event.n % (number + 2) == 0 else event.k

    return key


def word_fails(number: int) -> Callable[[Event], Any]:
    def key(event: Event) -> str:
        refuse(event, number)
        return event.k

    return key


def remainder(number: int) -> Callable[[Event], Any]:
    """Small ints around zero."""

    def key(event: Event) -> int:
        return event.n % (number + 1) - 1

    return key


def both(number: int) -> Callable[[Event], Any]:
    def key(event: Event) -> tuple[str, int]:
        return event.k, event.n % (number + 1)

    return key


KeyType = Literal["str", "int", "pair"]
KEY_TYPES: dict[KeyType, Any] = {"str": str, "int": int, "pair": tuple[str, int]}
KeyMaker = Callable[[int], Callable[[Event], Any]]
KEYS: dict[KeyType, dict[str, KeyMaker]] = {
    "str": {"word": word},
    "int": {"remainder": remainder},
    "pair": {"both": both},
}
FAILING_KEYS: dict[str, KeyMaker] = {
    "word_or_none": word_or_none,
    "word_fails": word_fails,
}
"""Of str: a key of None fails at a window."""


# aggregates; no result depends on the order of arrival, but for that of `collect`


def number_of(event: Event) -> int:
    return event.n


def number_if_good(event: Event) -> int:
    refuse(event, 3)
    return event.n


def larger(one: Event, other: Event) -> Event:
    return max(one, other, key=lambda event: (event.n, event.k, event.at))


def sorted_in(numbers: list[int], event: Event) -> list[int]:
    bisect.insort(numbers, event.n)
    return numbers


def sorted_together(one: list[int], other: list[int]) -> list[int]:
    return sorted([*one, *other])


def nothing_yet() -> tuple[int, str]:
    return 0, ""


def tallied(tally: tuple[int, str], event: Event) -> tuple[int, str]:
    return tally[0] + event.n, max(tally[1], event.k)


def tallied_together(one: tuple[int, str], other: tuple[int, str]) -> tuple[int, str]:
    return one[0] + other[0], max(one[1], other[1])


def all_events() -> Aggregate[Event, list[Event]]:
    return collect()


AGGREGATES: dict[str, Callable[[], Aggregate[Event, Any]]] = {
    "count": count,
    "total": lambda: total(number_of),
    "minimum": lambda: minimum(number_of),
    "maximum": lambda: maximum(number_of),
    "mean": lambda: mean(number_of),
    "collect": all_events,
    "reduce": lambda: reduce(larger),
    "sorted": lambda: aggregate(list, sorted_in, merge=sorted_together),
    "tally": lambda: aggregate(nothing_yet, tallied, merge=tallied_together),
}
FAILING_AGGREGATES: dict[str, Callable[[], Aggregate[Event, Any]]] = {"total_fails": lambda: total(number_if_good)}


# panes


def in_order(pane: Pane[Any, list[Event]]) -> Pane[Any, list[Event]]:
    """A pane of `collect`, so that the order in which the events came no longer shows."""
    events = sorted(pane.value, key=lambda event: (event.k, event.n, event.at))
    return Pane(pane.key, pane.window, events, pane.kind, pane.replaces)


def digest(value: Any) -> int:
    """A small number made of a pane's value; of a list, whatever its order."""
    if isinstance(value, Event):
        return (value.n * 7 + len(value.k) + value.at) % 1009
    if isinstance(value, str):
        return sum(value.encode())
    if isinstance(value, list):
        value = sorted(digest(part) for part in value)
    if isinstance(value, list | tuple):
        return sum(digest(part) * place for place, part in enumerate(value, 1)) % 1009
    return int(value * 6) if isinstance(value, float) else int(value)


def key_of_pane(pane: Pane[Any, Any]) -> Any:
    return pane.key


def event_of(pane: Pane[Any, Any]) -> Event:
    """An event again: its word is the key as text, its number tells of the value."""
    text = ":".join(str(part) for part in pane.key) if isinstance(pane.key, tuple) else str(pane.key)
    return Event(text, digest(pane.value), pane.window.end)


def event_of_good(pane: Pane[Any, Any]) -> Event:
    event = event_of(pane)
    refuse(event, 1)
    return event


# joins: the left event, the right one, either or both of them None -> Event


Joining = Callable[[Event | None, Event | None], Event]


def minus(number: int) -> Joining:
    def subtract(left: Event | None, right: Event | None) -> Event:
        one, other = left or NO_EVENT, right or NO_EVENT
        return Event(one.k + "-" + other.k, one.n * (number + 2) - other.n, max(one.at, other.at))

    return subtract


def first_word(number: int) -> Joining:
    """An event like others, of the left word where there is one; the number tells what is missing."""

    def choose(left: Event | None, right: Event | None) -> Event:
        one, other = left or right or NO_EVENT, right or left or NO_EVENT
        missing = 10 * (left is None) + 20 * (right is None)
        return Event(one.k[:1], (one.n + 7 * other.n + number) % 97 + missing, other.at)

    return choose


def join_fails(number: int) -> Joining:
    """Raises for some that join, and for some that are alone."""
    subtract = minus(number)

    def join(left: Event | None, right: Event | None) -> Event:
        joined = subtract(left, right)
        refuse(joined, number)
        return joined

    return join


NO_EVENT = Event("", 3, 0)
JOINS = {"minus": minus, "first_word": first_word}
FAILING_JOINS = {"fails": join_fails}


# timestamps


def at(event: Event) -> int:
    return event.at


def at_if_good(event: Event) -> int:
    refuse(event, 4)
    return event.at
