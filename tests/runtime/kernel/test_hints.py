"""What is told of a failure: which value could not be encoded and for which stream, what a predicate has returned,
which limit a call has passed; and what to do about it."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import KeyedStream, MessageError, Pipeline, Retry, Serde, count, tumbling
from fluvial.runtime.testing import PipelineDriver

SECOND = timedelta(seconds=1)


class Point:
    """What JSON cannot hold."""


async def fetch(number: int) -> list[int]:
    return [number]


async def fetched() -> AsyncIterator[int]:
    yield 3


async def slow(number: Any) -> Any:
    await asyncio.sleep(10_000)
    return [number]


async def one(number: int) -> Any:
    return number


def refuse(_: Any) -> bytes:
    raise ValueError("not this one")


never = Serde("never", int, refuse, int)
anything: Any = lambda answer: lambda _: answer  # noqa: E731


def looked_up(stream: Any) -> None:
    users = stream._pipeline.remote_table("users", read=slow, timeout=2 * SECOND, retry=Retry(attempts=2))
    stream.join(users, lambda number, _: number, id="j").send_to("out")


def late(stream: Any) -> None:
    pointed = stream.map(anything(Point()))
    pointed.window(tumbling(SECOND), count(), id="w", late_to="late").send_to("out")


def run(pipeline: Pipeline, times: tuple[int, ...]) -> None:
    with PipelineDriver(pipeline) as driver:
        for time in times:
            driver.send("in", 3, key="a", timestamp=time)
        driver.advance(timedelta(hours=5))


def error_of(build: Callable[[Any], None], times: tuple[int, ...] = (0,)) -> str:
    """What ends a run over a message; blank space is one space."""
    pipeline = Pipeline("p")
    stream: KeyedStream[str, int] = pipeline.stream("in", key=str, value=int)
    build(stream)
    with pytest.raises(MessageError) as raised:
        run(pipeline, times)
    return " ".join(str(raised.value).split())


CASES: list[tuple[Callable[[Any], None], str, str]] = [
    (
        lambda s: s.map(anything(Point())).send_to("out"),
        "send_to out failed on the message at in, partition 0, offset 0, key 'a': its value of type Point cannot be"
        " encoded as json for the stream out: TypeError",
        "or pass a Serde as value=",
    ),
    (lambda s: s.map(lambda n: fetch(n)).send_to("out"), "value of type coroutine cannot be", "with async_flat_map"),
    (lambda s: s.map(lambda n: (n for _ in "ab")).send_to("out"), "value of type generator cannot be", "flat_map"),
    (
        lambda s: s.map(anything(len)).send_to("out"),
        "of type builtin_function_or_method cannot be",
        "call the function",
    ),
    (
        lambda s: s.send_to("out", value=str),
        "its value of type int cannot be encoded as str for the stream out",
        "Serde",
    ),
    (
        lambda s: s.send_to("out", value=never),
        "its value of type int cannot be encoded as never for the stream out: ValueError: not this one, raised at",
        "a value that never can hold",
    ),
    (
        lambda s: s.map(anything(Point())).partition_by(str, id="b", value=int).send_to("out"),
        "partition_by b failed on the message at in, partition 0, offset 0, key 'a': its value of type Point cannot be"
        " encoded as json:int for the stream p-b",
        "a value that json:int can hold",
    ),
    (
        lambda s: s.async_flat_map(fetch, id="c").map(anything(Point())).send_to("out"),
        "its value of type Point cannot be encoded as json for the stream out",
        "Serde",
    ),
    (lambda s: s.send_to("out", key=anything(2.5)), "its key: TypeError: a key is str, bytes, int", "of the key"),
    (
        lambda s: s.filter(anything(len)).send_to("out"),
        "it returned a builtin_function_or_method, which is always true: <built-in function len>",
        "call what was returned",
    ),
    (
        lambda s: s.filter(lambda n: fetch(n)).send_to("out"),
        "it returned a coroutine, which is always true",
        "await it",
    ),
    (lambda s: s.filter(anything(str.upper)).send_to("out"), "it returned a method_descriptor", "call what was"),
    (lambda s: s.split(anything(slow))[0].send_to("out"), "it returned a function, which is always true", "call what"),
    (lambda s: s.filter(lambda _: map(str, [])).send_to("out"), "it returned a map, which is always true", "any(...)"),
    (lambda s: s.split(lambda _: iter([]))[0].send_to("out"), "it returned a list_iterator", "any(...)"),
    (lambda s: s.filter(lambda _: aiter(fetched())).send_to("out"), "it returned a async_generator", "any(...)"),
    (lambda s: s.filter(anything(...)).send_to("out"), "it returned a ellipsis", "return True or False"),
    (lambda s: s.flat_map(anything(3)).send_to("out"), "'int' object is not iterable", "return a list: [value]"),
    (lambda s: s.async_flat_map(one, id="c").send_to("out"), "'int' object is not iterable", "return a list"),
    (lambda s: s.async_flat_map(lambda n: list(str(n)), id="c").send_to("out"), "TypeError: object list", "async def"),
    (
        lambda s: s.async_flat_map(slow, id="c", timeout=5 * SECOND, retry=Retry(attempts=3)).send_to("out"),
        "async_flat_map c failed on the message at in, partition 0, offset 0, key 'a': TimeoutError: no result within"
        " 5 s, the timeout, in attempt 3 of 3",
        "pass a longer timeout=",
    ),
    (
        lambda s: s.async_flat_map(slow, id="c").send_to("out"),
        "TimeoutError: no result within 1 min, the timeout, in attempt 1 of 1",
        "pass a longer timeout=",
    ),
    (
        looked_up,
        "join j failed on the message at in, partition 0, offset 0, key 'a': TimeoutError: no result within 2 s, the"
        " timeout, in attempt 2 of 2",
        "pass a longer timeout=",
    ),
]


@pytest.mark.parametrize(("build", "wrong", "remedy"), CASES, ids=[case[1][:40] for case in CASES])
def test_a_failure_says_what_is_wrong_and_what_to_do(build: Callable[[Any], None], wrong: str, remedy: str) -> None:
    text = error_of(build)
    assert wrong in text
    assert remedy in text
    assert "test_hints.py:" in text


def test_a_late_message_that_cannot_be_encoded_names_the_stream_for_late_ones() -> None:
    text = error_of(late, times=(0, 9000, 0))
    assert "window w failed on" in text
    assert "its value of type Point cannot be encoded as json for the stream late: TypeError" in text


# Python itself warns of it, and refuses it from 3.14 on.
@pytest.mark.filterwarnings("ignore:NotImplemented:DeprecationWarning")
def test_a_predicate_that_is_not_implemented_is_refused() -> None:
    text = error_of(lambda s: s.filter(anything(NotImplemented)).send_to("out"))
    assert "NotImplemented" in text


class Rest:
    """An iterator that knows whether something is left."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __iter__(self) -> "Rest":
        return self

    def __next__(self) -> int:
        raise StopIteration

    def __len__(self) -> int:
        return self.left


@pytest.mark.parametrize(
    "answer", [1, 0, "x", "", [3], None, True, False, 2.5, re.match("x", "x"), Point(), Rest(1), Rest(0)]
)
def test_any_other_answer_counts_as_it_does_in_an_if(answer: Any) -> None:
    pipeline = Pipeline("p")
    kept = pipeline.stream("in", value=int).filter(anything(answer))
    first, rest = kept.split(anything(answer))
    first.send_to("first")
    rest.send_to("rest")
    with PipelineDriver(pipeline) as driver:
        driver.send("in", 3)
        assert len(driver.read("first")) == bool(answer)
        assert driver.read("rest") == []
