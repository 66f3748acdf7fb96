"""The processors of random pipelines, by name: what they emit tells of all that they keep; some fail for some."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from typing import Any

from fluvial.dsl import Context, KeyedProcessor, ListState, MapState, Message, Tag, Tagged, Timer, ValueState
from generators.case_events import NO_EVENT, Event, refuse

Out = Iterable[Event | Tagged[Event]]
TEN, FIFTY = timedelta(milliseconds=10), timedelta(milliseconds=50)


class Running(KeyedProcessor[Any, Event | None, Event]):
    """A count of each key, and the sum of its numbers; it sets no timer."""

    aside = Tag("aside", Event)
    count = ValueState(int, 0)
    numbers = ListState(int)

    def __init__(self, number: int, fails: bool = False) -> None:
        self.number = number
        self.fails = fails

    def on_message(self, message: Message[Event | None], context: Context[Any]) -> Out:  # noqa: ARG002
        event = message.value or NO_EVENT
        self.count.value += 1
        self.numbers.append(event.n)
        if self.count.value % (self.number + 2) == 0:
            yield self.aside(Event(event.k, sum(self.numbers), event.at))
            self.numbers.assign(list(self.numbers)[-2:])
        if self.fails:
            refuse(event, self.number)
        yield Event(event.k, self.count.value * 100 + len(self.numbers), event.at)


class Sorting(KeyedProcessor[Any, Event | None, Event]):
    """Events of a key by time, once the watermark is there: what it emits does not depend on the order of arrival, nor
    on the steps of time, as long as nothing is late."""

    aside = Tag("aside", Event)
    waiting = MapState(tuple[int, str, int], int)

    def __init__(self, number: int, fails: bool = False) -> None:
        self.number = number
        self.fails = fails

    def on_message(self, message: Message[Event | None], context: Context[Any]) -> Out | None:
        event = message.value or NO_EVENT
        name = (message.timestamp, event.k, event.n)
        self.waiting[name] = self.waiting.get(name, 0) + 1
        # A millisecond later at least: what else has that time has come by then.
        context.timers.set(str(message.timestamp), message.timestamp + self.number + 1)
        if self.fails:
            refuse(event, self.number)
        return None

    def on_timer(self, timer: Timer, context: Context[Any]) -> Out:
        due = timer.time - self.number - 1
        for name in [name for name in self.waiting if name[0] == due]:
            event = Event(name[1], name[2], context.timestamp)
            made = self.waiting.pop(name)
            for _ in range(made):
                if self.fails:
                    refuse(Event(event.k, event.n + 1, event.at), self.number)
                yield event if event.n % 2 else self.aside(event)


class Watching(KeyedProcessor[Any, Event | None, Event]):
    """All kinds of state that age, and timers that are set anew, deleted, and set to times that have passed.

    A timer that a timer sets to such a time rings when time moves on, so `by_steps` its turn is a matter of the steps
    that time takes.
    """

    aside = Tag("aside", Event)
    last = ValueState(Event, ttl=TEN)
    numbers = ListState(int, ttl=FIFTY)
    words = MapState(str, dict[str, int], ttl=TEN)
    rang = ValueState(int, 0)

    def __init__(self, number: int, fails: bool = False, by_steps: bool = True) -> None:
        self.number = number
        self.fails = fails
        self.by_steps = by_steps

    def on_message(self, message: Message[Event | None], context: Context[Any]) -> Out:
        event = message.value or NO_EVENT
        before = self.last.value
        told = (0 if before is None else before.n % 7 + 1) + 10 * len(self.numbers) + 1000 * len(self.words)
        self.last.value = event
        self.numbers.append(event.n)
        word = self.words.get(event.k + str(event.n % 3), {})
        word["n"] = word.get("n", 0) + 1
        if event.n % 4:
            self.words[event.k + str(event.n % 3)] = word
        context.timers.set("quiet", message.timestamp + 5 + self.number)
        if event.n % 5 == 0:
            context.timers.set(f"other {event.n % 2}", message.timestamp - 3)
        if event.n % 7 == 0:
            context.timers.delete("other 0")
            self.numbers.clear()
        if self.fails:
            refuse(event, self.number)
        yield Event(event.k, told * 10 + word["n"], message.timestamp)

    def on_timer(self, timer: Timer, context: Context[Any]) -> Out:
        self.rang.value += 1
        told = self.rang.value * 1000 + len(self.words) * 100 + len(self.numbers) * 10 + (self.last.value is None)
        if timer.name == "quiet" and told % 3:
            again = timer.time + 4
            context.timers.set("again", again if self.by_steps else max(again, context.watermark + 1))
            self.words["rang"] = {"at": timer.time}
        if self.fails:
            refuse(Event("", told, 0), self.number)
        event = Event(timer.name, told, timer.time)
        yield event if timer.name == "quiet" else self.aside(event)


PROCESSORS: dict[str, Callable[[int, bool], Running | Sorting | Watching]] = {
    "running": Running,
    "sorting": Sorting,
    "watching": Watching,
    "watching exactly": partial(Watching, by_steps=False),
}
