"""Checks of arguments, made where the user writes them, so that each error names the user's own line."""

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from difflib import get_close_matches
from types import BuiltinFunctionType, FunctionType
from typing import Any, get_origin

from .errors import FluvialError, PipelineError
from .origin import here

LONGEST_NAME = 200
"""Most characters of a stream's name: short of what a topic (249) and a file (255) may have, for suffixes."""

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_ID = re.compile(r"[A-Za-z0-9_-]+")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+(?=>)")
"""Where in memory Python says that something is, which tells nobody anything."""


def require(holds: bool, error: type[FluvialError], wrong: str, expected: str, remedy: str = "") -> None:
    """Raise `error` with what was wrong, where, and what was expected, unless the condition holds."""
    if not holds:
        raise error(explain(wrong, expected, remedy))


def explain(wrong: str, expected: str, remedy: str = "", at: object = None) -> str:
    """The one form of all our messages: what was wrong, where, what was expected, what to do."""
    text = f"{_ADDRESS.sub('', wrong)}\n  at {at or here()}\n  expected: {expected}"
    return f"{text}\n  to do: {remedy}" if remedy else text


def not_found(owner: str, noun: str, given: object, known: Iterable[str]) -> str:
    """The message about a name that nothing has: `owner` is what was asked, `noun` what it was asked for, and `known`
    are the names that there are."""
    names = list(known)
    meant = get_close_matches(str(given), names, 1)
    remedy = f"write {meant[0]!r}" if meant else "correct the name"
    return explain(f"{owner} has no {noun} {given!r}", f"one of {', '.join(names)}" if names else "none", remedy)


def one_of(what: str, given: str, known: tuple[str, ...]) -> None:
    """Refuse a word that is none of those that are known."""
    *first, last = (f'"{word}"' for word in known)
    expected = f"{', '.join(first)} or {last}"
    good, name = isinstance(given, str) and given in known, what.rpartition(" ")[2]
    require(good, PipelineError, f"{what}={given!r}", expected, f'write {name}="{known[0]}", or another of them')


def at_least_one(what: str, given: Any, of: str) -> int:
    """Refuse anything but a whole number of something, one or more."""
    # True counts as 1 in Python, and is a mistake here.
    good = isinstance(given, int) and not isinstance(given, bool) and given >= 1
    require(
        good,
        PipelineError,
        f"{what}={given!r}",
        f"a number of {of}, 1 or more",
        "write a whole number",
    )
    return int(given)


def whole_number(what: str, given: Any) -> int:
    """Refuse anything but a whole number, be it negative."""
    good = isinstance(given, int) and not isinstance(given, bool)
    require(good, PipelineError, f"{what}={given!r}", "a whole number", "write one such as 1, or leave it out")
    return int(given)


def millis(what: str, duration: timedelta, *, least: int = 0, error: type[FluvialError] = PipelineError) -> int:
    """A duration as whole milliseconds; anything but a timedelta of at least `least` ms is refused."""
    good = isinstance(duration, timedelta) and duration // timedelta(milliseconds=1) >= least
    expected = "a timedelta" + (f" of at least {least} ms" if least else ", not negative")
    require(good, error, f"{what} is {duration!r}", expected, "write timedelta(seconds=...) from datetime")
    return duration // timedelta(milliseconds=1)


def stream_name(name: str) -> str:
    """A stream's name, refused unless it could be a topic."""
    good = isinstance(name, str) and _NAME.fullmatch(name) is not None and len(name) <= LONGEST_NAME
    expected = f"letters, digits, '.', '_' and '-', at most {LONGEST_NAME} of them"
    require(
        good,
        PipelineError,
        f"stream name {name!r}",
        expected,
        "choose such a name, as for a topic of Kafka: 'page-views'",
    )
    return name


def operator_id(value: str, what: str = "id") -> str:
    """An operator's id, or another name as `what` says, refused unless it fits a topic, a store and a checkpoint."""
    remedy = "choose such a name; it becomes part of names of topics, stores and checkpoints"
    good = isinstance(value, str) and _ID.fullmatch(value) is not None and len(value) <= LONGEST_NAME
    require(
        good,
        PipelineError,
        f"{what} {value!r}",
        f"letters, digits, '_' and '-', at most {LONGEST_NAME} of them",
        remedy,
    )
    return value


def flag(what: str, value: Any) -> bool:
    """Refuse anything but True and False."""
    require(isinstance(value, bool), PipelineError, f"{what}={value!r}", "True or False", "write True, or leave it out")
    return bool(value)


def number(what: str, value: Any, expected: str, holds: Callable[[float], bool]) -> float:
    """Refuse anything but a number, whole or not, for which something holds."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and holds(value)
    require(good, PipelineError, f"{what}={value!r}", expected, "write such a number, or leave it out")
    return float(value)


def a_type(what: str, type_: Any) -> None:
    """Refuse what is no type: not a class, and none of the forms of `typing` such as `int | None`."""
    good = isinstance(type_, type) or get_origin(type_) is not None or type(type_).__module__ in ("typing", "types")
    good = good and not isinstance(type_, FunctionType | BuiltinFunctionType)
    remedy = "pass the class itself, not one of its instances"
    require(good, PipelineError, f"{what}={type_!r}", "a type, such as int or list[str]", remedy)
