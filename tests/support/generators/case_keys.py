"""The keys of random pipelines, by their type: closures over a small int; some raise for some events."""

from collections.abc import Callable
from typing import Any, Literal

from generators.case_events import Event, refuse


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


def whole(_: int) -> Callable[[Event], Any]:
    def key(event: Event) -> tuple[str, int, int]:
        return event.k, event.n, event.at

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
WHOLE: dict[str, KeyMaker] = {"whole": whole}
"""Of no stream: equal ones are of equal events."""
