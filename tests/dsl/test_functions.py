"""Functions of the wrong kind are refused where they are written; those that may be right are taken."""

import asyncio
import json
import math
import operator
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from fractions import Fraction
from functools import lru_cache, partial, singledispatch, update_wrapper, wraps
from operator import attrgetter, itemgetter, methodcaller
from pathlib import Path
from typing import Any, NewType, TypedDict
from unittest.mock import AsyncMock, MagicMock, Mock

import msgspec
import pytest

import fluvial.dsl as dsl
from explained import assert_explains, error_of
from fluvial.dsl import KeyedProcessor, Pipeline, PipelineError, count, tumbling
from fluvial.dsl.functions import check_call

anything: Any = lambda: Pipeline("p").stream("words", value=str)  # noqa: E731
keyed: Any = lambda: Pipeline("p").stream("words", key=str, value=str)  # noqa: E731
remote: Any = Pipeline("p").remote_table
source: Any = Pipeline("p").stream
language: Any = dsl


async def call(word: str) -> list[str]:
    return [word]


async def many(word: str) -> AsyncIterator[str]:
    yield word


def plain(word: str) -> list[str]:
    return [word]


def untold(word):  # type: ignore[no-untyped-def]
    return list(word)


def each(word: str) -> Iterator[str]:
    yield from word


def later(word: str) -> Awaitable[list[str]]:
    return call(word)


def longer(than: int) -> Callable[[str], bool]:
    return lambda word: len(word) > than


def counted(fn: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(fn)
    def counting(*given: Any) -> Any:
        return fn(*given)

    return counting


class Caller:
    """Calls, and has methods that do."""

    async def __call__(self, word: str) -> list[str]:
        return [word]

    async def method(self, word: str) -> list[str]:
        return [word]


class Plain:
    """Is called, and does not wait."""

    def __call__(self, word: str) -> list[str]:
        return [word]


TO_WAIT = "async_flat_map(fn, id=...)"
IN_PLACE = "use async_flat_map(fn, id=...), whose function"
APART = "make the call by async_flat_map(fn, id=...), before or behind"
FOR_MANY = "flat_map takes a function that gives several"
WITH_ASYNC = "async def"

CASES: list[tuple[Any, str, str, str]] = [
    (lambda: anything().map(call), "map got the asynchronous function call", "a plain function", TO_WAIT),
    (lambda: anything().map(partial(call)), "map got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: anything().map(Caller()), "map got the asynchronous function Caller.__call__", "a plain", TO_WAIT),
    (lambda: anything().map(Caller().method), "map got the asynchronous function method", "a plain", TO_WAIT),
    (lambda: anything().map(counted(call)), "map got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: anything().map(later), "map got the asynchronous function later", "a plain function", TO_WAIT),
    (lambda: anything().map(asyncio.sleep), "map got the asynchronous function sleep", "a plain", TO_WAIT),
    (lambda: anything().filter(call), "filter got the asynchronous function call", "a plain", IN_PLACE),
    (lambda: anything().split(len, call), "split got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: anything().flat_map(many), "flat_map got the asynchronous function many", "a plain", TO_WAIT),
    (lambda: anything().flatMap(call), "flat_map got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: keyed().map(call), "map got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: anything().partition_by(call, id="b", key_type=str), "partition_by got the asynchronous", "a pl", APART),
    (lambda: anything().send_to("out", key=call), "send_to: key got the asynchronous function", "a plain", TO_WAIT),
    (
        lambda: source("words", value=str, timestamp=call),
        "timestamp got the asynchronous function call",
        "a plain",
        TO_WAIT,
    ),
    (lambda: language.total(call), "total got the asynchronous function call", "a plain", APART),
    (lambda: language.reduce(call), "reduce got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: language.maximum(call), "maximum got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: language.aggregate(list, call), "aggregate: add got the asynchronous function", "a plain", TO_WAIT),
    (lambda: language.Serde("s", str, call, str), "Serde 's': encode got the asynchronous", "a plain", TO_WAIT),
    (lambda: anything().map(each), "map got the generator function each", "a function that returns", FOR_MANY),
    (lambda: anything().filter(each), "filter got the generator function each", "a function that returns", FOR_MANY),
    (lambda: anything().filter(longer), "filter got longer, which returns a function", "True or False", "longer(...)"),
    (lambda: anything().split(longer), "split got longer, which returns a function", "True or False", "longer(...)"),
    (lambda: anything().async_flat_map(plain, id="c"), "'c' got the plain function plain", "an async", WITH_ASYNC),
    (lambda: anything().asyncFlatMap(plain, id="c"), "'c' got the plain function plain", "an async", WITH_ASYNC),
    (lambda: keyed().async_flat_map(untold, id="c"), "'c' got the plain function untold", "an async", WITH_ASYNC),
    (lambda: anything().async_flat_map(each, id="c"), "'c' got the plain function each", "an async", WITH_ASYNC),
    (lambda: anything().async_flat_map(Plain(), id="c"), "got the plain function Plain.__call__", "an as", WITH_ASYNC),
    (lambda: anything().async_flat_map(lambda w: [w], id="c"), "the plain function lambda", "an async", WITH_ASYNC),
    (lambda: anything().async_flat_map(many, id="c"), "the asynchronous generator many", "returns", "in a list"),
    (lambda: remote("users", read=plain), "'users': read got the plain function plain", "an async", WITH_ASYNC),
    (
        lambda: remote("users", read=call, write=plain),
        "'users': write got the plain function plain",
        "an async",
        WITH_ASYNC,
    ),
]


async def two(key: str, row: str) -> list[str]:
    return [key, row]


def pair(left: str, right: str) -> str:
    return left + right


def named(*, word: str) -> str:
    return word


class Wide:
    """Has methods of other arguments than sinks and processors have."""

    def open(self) -> None: ...
    def write(self) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


class Deaf(KeyedProcessor[str, str, str]):
    """Takes no context."""

    def on_message(self, message: Any) -> Any:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        return [message.value]


def join_tables() -> Any:
    pipeline: Any = Pipeline("p")
    one, other = (pipeline.table(name, key=str, value=str) for name in ("one", "other"))
    return partial(one.join, other, id="j")


def join_table() -> Any:
    pipeline: Any = Pipeline("p")
    table = pipeline.table("names", key=str, value=str)
    return partial(pipeline.stream("words", key=str, value=str).join, table, id="j")


def join_streams() -> Any:
    pipeline: Any = Pipeline("p")
    one, other = (pipeline.stream(name, key=str, value=str) for name in ("one", "other"))
    return partial(one.join, other, id="j", within=timedelta(1))


serde: Any = partial(language.Serde, "s", str)


MANY = "too many positional arguments"
FEW = "missing a required argument"
UNFIT: list[tuple[Any, str, str, str]] = [
    (
        lambda: anything().map(lambda: 1),
        f"map got lambda, which cannot be called with 1 argument: {MANY}",
        "fn(value)",
        "lambda value: ...",
    ),
    (
        lambda: anything().map(pair),
        f"map got pair, which cannot be called with 1 argument: {FEW}: 'right'",
        "fn(value)",
        "take value",
    ),
    (
        lambda: anything().map(named),
        f"map got named, which cannot be called with 1 argument: {MANY}",
        "fn(value)",
        "take value",
    ),
    (
        lambda: anything().filter(lambda a, b: a < b),
        f"filter got lambda, which cannot be called with 1 argument: {FEW}: 'b'",
        "fn(value)",
        "lambda value",
    ),
    (lambda: anything().split(len, lambda: 1), "split got lambda, which", "fn(value)", "lambda value"),
    (lambda: anything().flat_map(lambda: [1]), "flat_map got lambda, which", "fn(value)", "lambda value"),
    (lambda: anything().map_messages(pair), "map_messages got pair, which", "fn(message)", "take message"),
    (
        lambda: anything().partition_by(pair, id="b", key_type=str),
        "partition_by got pair, which",
        "fn(value)",
        "take value",
    ),
    (
        lambda: anything().async_flat_map(two, id="c"),
        "'c' got two, which",
        "an async function that can be called as fn(value)",
        "take value",
    ),
    (lambda: anything().send_to("out", key=pair), "send_to: key got pair, which", "fn(value)", "take value"),
    (lambda: source("s", value=str, timestamp=pair), "timestamp got pair, which", "fn(value)", "take value"),
    (
        lambda: join_streams()(len),
        "join 'j' got len, which cannot be called with 2 arguments",
        "fn(left, right)",
        "take left and right",
    ),
    (
        lambda: join_table()(lambda value: value),
        "join 'j' got lambda, which",
        "fn(value, row)",
        "lambda value, row: ...",
    ),
    (lambda: join_tables()(lambda left: left), "join 'j' got lambda, which", "fn(left, right)", "lambda left, right"),
    (
        lambda: keyed().join(remote("r", read=call), len, id="j"),
        "join 'j' got len, which",
        "fn(value, row)",
        "value and row",
    ),
    (lambda: keyed().deduplicate(timedelta(1), by=pair, id="d"), "'d': by got pair, which", "fn(value)", "take value"),
    (lambda: remote("r", read=two), "'r': read got two, which", "fn(key)", "take key"),
    (lambda: remote("r", read=two, batch=dsl.Batch()), "'r': read got two, which", "fn(keys)", "take keys"),
    (lambda: remote("r", read=call, write=call), "'r': write got call, which", "fn(key, row)", "take key and row"),
    (
        lambda: remote("r", read=call, write=two, batch=dsl.Batch()),
        "'r': write got two, which",
        "fn(rows)",
        "take rows",
    ),
    (lambda: language.total(pair), "total got pair, which", "fn(value)", "take value"),
    (lambda: language.mean(pair), "mean got pair, which", "fn(value)", "take value"),
    (lambda: language.minimum(pair), "minimum got pair, which", "fn(value)", "take value"),
    (lambda: language.reduce(len), "reduce got len, which", "fn(one, other)", "take one and other"),
    (
        lambda: language.aggregate(len, pair),
        "aggregate: init got len, which cannot be called with no arguments",
        "fn()",
        "take none",
    ),
    (
        lambda: language.aggregate(str, len),
        "aggregate: add got len, which",
        "fn(accumulator, value)",
        "accumulator and value",
    ),
    (
        lambda: language.aggregate(str, pair, merge=len),
        "aggregate: merge got len, which",
        "fn(one, other)",
        "one and other",
    ),
    (lambda: serde(pair, str), "encode got pair, which", "fn(value)", "take value"),
    (lambda: serde(str, pair), "decode got pair, which", "fn(data)", "take data"),
    (lambda: serde(str, str, check=pair), "check got pair, which", "fn(writes)", "take writes"),
    (lambda: serde(str, str, from_json=pair), "from_json got pair, which", "fn(document)", "take document"),
    (
        lambda: anything().sink(Wide(), id="w"),
        "sink 'w': Wide.write got write, which",
        "a method that can be called as fn(messages)",
        "take messages",
    ),
    (
        lambda: keyed().process(Deaf(), id="d"),
        "'d': on_message got on_message, which",
        "fn(message, context)",
        "take message and context",
    ),
]


@pytest.mark.parametrize(("place", "wrong", "expected", "remedy"), UNFIT, ids=[case[1] for case in UNFIT])
def test_a_function_that_cannot_be_called_is_refused_where_it_is_written(
    place: Any, wrong: str, expected: str, remedy: str
) -> None:
    assert_explains(error_of(place, PipelineError), wrong, place, expected, remedy)


@dataclass
class Visit:
    """Is made of a word."""

    url: str
    bytes: int = 0


class Row(TypedDict, total=False):
    """Is called as dict is."""

    url: str


class Made(msgspec.Struct):
    """Is made of a word."""

    url: str


class Kept(dict[str, int]):
    """Is made as dict is."""


class Bad(ValueError):
    """Is made as other errors are."""


def adds(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator that gives a function its second argument."""

    @wraps(fn)
    def added(value: Any) -> Any:
        return fn(value, 1)

    return added


@adds
def scaled(value: str, by: int) -> str:
    return value * by


class Counted:
    """A decorator that is a class, and says of each object what it wraps."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn = fn
        update_wrapper(self, fn)

    def __call__(self, *args):  # type: ignore[no-untyped-def]
        return self.fn(*args)


ACCEPTED: list[Any] = [
    *(str, int, float, bool, bytes, dict, list, set, tuple, len, repr, print, abs, max, ord, type, sorted),
    *(str.upper, str.split, str.strip, "x".find, {}.get, [].append, bytes.fromhex, int.__neg__, math.floor),
    *(itemgetter(0), attrgetter("x"), methodcaller("upper"), dict[str, int], list[int], NewType("Name", str)),
    *(partial(pair, "x"), partial(pair, right="x")),
    *(
        lambda *words: words,
        lambda word, times=1: word * times,
        lambda word, /: word,
        lambda *words, **more: (words, more),
    ),
    *(Visit, Row, Made, Enum("Color", ["RED"]), Caller().method, Plain(), counted(pair), scaled, lru_cache(len)),
    *(singledispatch(len), Mock(), json.loads, msgspec.json.decode, msgspec.json.Decoder().decode),
    *(re.compile("x").match, datetime.fromisoformat, Fraction, Path, Kept, Bad, staticmethod(len), "{}".format),
]


@pytest.mark.parametrize("fn", ACCEPTED)
def test_what_may_be_called_with_one_argument_is_accepted(fn: Any) -> None:
    check_call("map", fn, "value")


@pytest.mark.parametrize("fn", [max, min, operator.add, int.__add__, str.join, pair, dict.get, partial(max, key=len)])
def test_what_may_be_called_with_two_arguments_is_accepted(fn: Any) -> None:
    check_call("reduce", fn, "one", "other")


@pytest.mark.parametrize("fn", [int, list, dict, str, Row, lambda: 0, partial(list, "x"), partial(pair, "x", "y")])
def test_what_may_be_called_without_arguments_is_accepted(fn: Any) -> None:
    check_call("init", fn)


@pytest.mark.parametrize(("place", "wrong", "expected", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_a_function_of_the_wrong_kind_is_refused(place: Any, wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(place, PipelineError), wrong, place, expected, remedy)


@pytest.mark.parametrize(
    "fn",
    [
        *(call, partial(call), counted(call), Counted(call), later, Caller(), Caller().method),
        *(lambda word: call(word), asyncio.sleep, AsyncMock(), AsyncMock(spec=call), AsyncMock().get),
    ],
)
def test_a_function_whose_result_may_be_awaited_is_taken(fn: Any) -> None:
    anything().async_flat_map(fn, id="call")


@pytest.mark.parametrize("fn", [Mock(spec=plain), MagicMock(spec=plain), Counted(plain)])
def test_a_mock_of_a_function_is_looked_at_as_what_it_is(fn: Any) -> None:
    anything().map(fn).filter(fn).flat_map(fn)


def test_a_mock_whose_calls_must_be_awaited_is_no_plain_function() -> None:
    error = error_of(lambda: anything().map(AsyncMock()), PipelineError)
    assert "map got the asynchronous function AsyncMock" in str(error)


@pytest.mark.parametrize("fn", [str.isalpha, bool, len, partial(str.startswith, "x"), lambda word: word, "x".find])
def test_what_says_yes_or_no_in_its_way_is_taken(fn: Any) -> None:
    anything().filter(fn).split(fn)


def test_flat_map_takes_generators() -> None:
    def halves(word: str) -> Iterable[str]:
        yield word[: len(word) // 2]
        yield word[len(word) // 2 :]

    anything().flat_map(halves).flat_map(each)


def test_an_id_of_none_is_no_id() -> None:
    place: Any = lambda: keyed().window(tumbling(timedelta(1)), count(), id=None)  # noqa: E731
    assert_explains(error_of(place, PipelineError), "id None", place, "letters, digits")


def shouted(word: str) -> str:
    return word.upper()


def doubled(number: int) -> int:
    return 2 * number


@pytest.mark.parametrize(
    ("place", "wrong", "expected"),
    [
        (lambda: anything().map_messages(shouted), "map_messages got shouted, which returns str", "returns a Message"),
        (lambda: source("s", value=str, timestamp=shouted), "got shouted, which returns str", "a time in ms"),
        (lambda: source("s", value=str, timestamp=doubled), "gets str, and doubled takes int", "takes the values"),
    ],
)
def test_what_is_annotated_to_take_or_return_another_type_is_refused(place: Any, wrong: str, expected: str) -> None:
    assert_explains(error_of(place, PipelineError), wrong, place, expected)
