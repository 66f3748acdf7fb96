"""The functions that random pipelines join with: of the left event and the right one, either or both of them None."""

from collections.abc import Callable

from generators.case_events import NO_EVENT, Event, refuse

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


JOINS = {"minus": minus, "first_word": first_word}
FAILING_JOINS = {"fails": join_fails}
