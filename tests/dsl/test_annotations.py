"""What annotations say of a function, and what they leave open."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol

import pytest

from fluvial.dsl import Message
from fluvial.dsl.annotations import UNKNOWN, contradicts, element_type, message_value, returned, taken


@dataclass
class Order:
    item: str


@dataclass
class Express(Order):
    hours: int


@dataclass
class HasItem(Protocol):
    item: str


def doubled(number: int) -> int:
    return 2 * number


def untold(number):  # type: ignore[no-untyped-def]
    return number


def of_checkers_alone(number: "Missing") -> "Missing":  # type: ignore[name-defined]  # noqa: F821
    return number


def nothing() -> None:
    return None


@wraps(doubled)
def decorated(number: str) -> str:
    return number


class Doubling:
    def double(self, number: int) -> int:
        return 2 * number

    def __call__(self, number: int) -> int:
        return 2 * number


@pytest.mark.parametrize(
    ("fn", "type_"),
    [
        (doubled, int),
        (Order, Order),
        (list[int], list[int]),
        (Doubling().double, int),
        (untold, UNKNOWN),
        (of_checkers_alone, UNKNOWN),
        (len, UNKNOWN),
    ],
)
def test_what_a_function_returns(fn: Callable[..., Any], type_: Any) -> None:
    assert returned(fn) == type_


@pytest.mark.parametrize(
    ("fn", "type_"),
    [
        (doubled, int),
        (Doubling().double, int),
        (Doubling(), UNKNOWN),
        (untold, UNKNOWN),
        (of_checkers_alone, UNKNOWN),
        (nothing, UNKNOWN),
        (decorated, UNKNOWN),
        (Order, UNKNOWN),
    ],
)
def test_what_a_function_takes(fn: Callable[..., Any], type_: Any) -> None:
    assert taken(fn) == type_


@pytest.mark.parametrize(
    ("given", "wanted", "wrong"),
    [
        (str, int, True),
        (Order, str, True),
        (Express, Order, False),
        (Order, Express, False),
        (bool, float, False),
        (str, int | str, False),
        (str, HasItem, False),
        (UNKNOWN, int, False),
    ],
)
def test_only_classes_that_share_no_value_contradict(given: Any, wanted: Any, wrong: bool) -> None:
    assert contradicts(given, wanted) == wrong


@pytest.mark.parametrize(
    ("type_", "wanted"),
    [
        (list[int], int),
        (Iterable[str], str),
        (tuple[int, ...], int),
        (tuple[int, int], int),
        (tuple[int, str], UNKNOWN),
        (list, UNKNOWN),
        (int, UNKNOWN),
    ],
)
def test_the_type_of_elements(type_: Any, wanted: Any) -> None:
    assert element_type(type_) == wanted


@pytest.mark.parametrize(("type_", "wanted"), [(Message[int], int), (Message, UNKNOWN), (list[int], UNKNOWN)])
def test_the_type_of_the_value_of_a_message(type_: Any, wanted: Any) -> None:
    assert message_value(type_) == wanted
