"""What random pipelines do to single events and messages: closures over a small int, by name; some raise for some."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from fluvial.dsl import Message
from generators.case_events import Event, refuse

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


def awaited_many(
    fn: Callable[[Event], Awaitable[list[Event]]],
) -> Callable[[list[Event]], Awaitable[list[list[Event] | Exception]]]:
    """A function for a batch of events, which calls a function for each of them."""

    async def call(events: list[Event]) -> list[list[Event] | Exception]:
        results: list[list[Event] | Exception] = []
        for event in events:
            try:
                results.append(await fn(event))
            except Exception as error:
                results.append(error)
        return results

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


def bare(message: Message[Event]) -> Message[Event]:
    """A message without key and headers."""
    return Message(None, message.value, message.timestamp)


def messages_fail(number: int) -> Callable[[Message[Event]], Message[Event]]:
    def pass_on(message: Message[Event]) -> Message[Event]:
        refuse(message.value, number)
        return message

    return pass_on


MESSAGES = {"later": later, "rekeyed": rekeyed, "headed": headed}
FAILING_MESSAGES = {"fails": messages_fail}
BACKWARD_MESSAGES = {"earlier": earlier}
