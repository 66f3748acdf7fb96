"""The aggregates of random pipelines, and what becomes of their panes.

No result depends on the order of arrival, but for that of `collect`.
"""

import bisect
from collections.abc import Callable
from typing import Any

from fluvial.dsl import Aggregate, Pane, aggregate, collect, count, maximum, mean, minimum, reduce, total
from generators.case_events import Event, refuse


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
