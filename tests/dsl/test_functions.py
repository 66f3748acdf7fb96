"""Functions of the wrong kind are refused where they are written; those that may be right are taken."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from datetime import timedelta
from functools import partial, wraps
from typing import Any

import pytest

import fluvial.dsl as dsl
from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PipelineError, count, tumbling

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
    (lambda: anything().filter(call), "filter got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: anything().split(len, call), "split got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: anything().flat_map(many), "flat_map got the asynchronous function many", "a plain", TO_WAIT),
    (lambda: anything().flatMap(call), "flat_map got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: keyed().map(call), "map got the asynchronous function call", "a plain", TO_WAIT),
    (lambda: anything().partition_by(call, id="b", key_type=str), "partition_by got the asynchronous", "a pl", TO_WAIT),
    (lambda: anything().send_to("out", key=call), "send_to: key got the asynchronous function", "a plain", TO_WAIT),
    (
        lambda: source("words", value=str, timestamp=call),
        "timestamp got the asynchronous function call",
        "a plain",
        TO_WAIT,
    ),
    (lambda: language.total(call), "total got the asynchronous function call", "a plain", TO_WAIT),
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


@pytest.mark.parametrize(("place", "wrong", "expected", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_a_function_of_the_wrong_kind_is_refused(place: Any, wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(place, PipelineError), wrong, place, expected, remedy)


@pytest.mark.parametrize(
    "fn", [call, partial(call), counted(call), later, Caller(), Caller().method, lambda word: call(word), asyncio.sleep]
)
def test_a_function_whose_result_may_be_awaited_is_taken(fn: Any) -> None:
    anything().async_flat_map(fn, id="call")


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
