"""Wrong use of the language: each error names the user's line, and says what to write instead."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import (
    Batch,
    KeyedStream,
    MessageStream,
    Pipeline,
    PipelineError,
    Retry,
    Serde,
    Trigger,
    aggregate,
    count,
    msgpack,
    session,
    tumbling,
)

HOUR = timedelta(hours=1)


def words() -> MessageStream[str]:
    return Pipeline("p").stream("words", value=str)


def keyed() -> KeyedStream[str, str]:
    return words().partition_by(str, id="by", key_type=str)


def add(total: int, _: str) -> int:
    return total + 1


async def call(word: str) -> list[str]:
    return [word]


async def fetch_all(words: list[str]) -> list[list[str]]:
    return [[word] for word in words]


async def fetch_flat(words: list[str]) -> list[str]:
    return words


class Waiting:
    """A sink whose methods nobody would await."""

    def open(self) -> None: ...
    async def write(self, messages: Any) -> None: ...
    async def flush(self) -> None: ...
    def close(self) -> None: ...


class Lazy:
    """A sink whose write does nothing when it is called."""

    def open(self) -> None: ...
    def write(self, messages: Any) -> Any:
        yield messages

    def flush(self) -> None: ...
    def close(self) -> None: ...


anything_keyed: Any = keyed
anything_of: Any = Pipeline
anything: Any = words  # what type checkers would not let through


def anything_else(made: Any) -> Any:
    """A class whose arguments no type checker looks at."""
    return made


CASES = [
    (
        lambda: anything().window(tumbling(HOUR), count(), id="w"),
        "window on a stream without a key",
        "a keyed",
        ".part",
    ),
    (lambda: anything().map(3), "map got 3", "a function", "not its result"),
    (lambda: anything().filter("x"), "filter got 'x'", "a function", "not its result"),
    (lambda: anything().merge(), "merge got no streams", "one stream or more", "a.merge(b)"),
    (lambda: words().merge(words()), "merge got", "streams of the same pipeline", ""),
    (lambda: words().send_to("a/b"), "stream name 'a/b'", "letters, digits", ""),
    (
        lambda: words().partition_by(lambda w: w, id="by"),
        "the type of its keys is not known",
        "a key type",
        "key_type=",
    ),
    (lambda: words().partition_by(float, id="b", key_type=float), "float is not a type of key", "str, bytes, int", ""),
    (lambda: words().partition_by(str, id="a b", key_type=str), "id 'a b'", "letters, digits", ""),
    (lambda: keyed().partition_by(str, id="by", key_type=str), "id 'by' is used twice", "a unique id", "another id"),
    (lambda: anything().sink(3, id="s"), "int has no open, write, flush, close", "an object with open", ""),
    (
        lambda: anything().sink(Waiting(), id="db"),
        "sink 'db': Waiting are asynchronous: write, flush",
        "methods that have done their work when they return",
        "write them with def",
    ),
    (
        lambda: anything().sink(Lazy(), id="db"),
        "sink 'db': Lazy are generators: write",
        "have done their work",
        "yield",
    ),
    (lambda: words().async_flat_map(call, id="c", max_in_flight=0), "max_in_flight=0", "1 or more", ""),
    (lambda: anything().async_flat_map(call, id="c", order="x"), "order='x'", '"key", "input" or "none"', ""),
    (lambda: anything().async_flat_map(call, id="c", timeout=3), "timeout is 3", "a timedelta", "timedelta(seconds="),
    (lambda: anything().async_flat_map(call, id="c", batch=3), "'c': batch=3", "a Batch", "Batch(size=20)"),
    (
        lambda: words().async_flat_map(fetch_all, id="c", batch=Batch(size=50), max_in_flight=49),
        "'c': batch=Batch(size=50) and max_in_flight=49, which counts messages",
        "room for one batch at least",
        "max_in_flight=200",
    ),
    (
        lambda: anything().async_flat_map(fetch_flat, id="c", batch=Batch()),
        "'c' got fetch_flat, which returns list",
        "with batch=, a function that returns a list of values for each value",
        "return [[value], ...]",
    ),
    (lambda: anything_else(Retry)(after=3), "Retry: after got 3", "a function", ""),
    (lambda: anything_else(Retry)(after=add), "Retry: after got add", "fn(error)", ""),
    (lambda: Retry(jitter=1.5), "Retry: jitter=1.5", "a number from 0 to 1", ""),
    (lambda: anything_else(Retry)(max_after=3), "Retry: max_after is 3", "a timedelta", "timedelta(seconds="),
    (lambda: anything().async_flat_map(call, id="c", retry=3), "retry=3", "a Retry", "Retry(attempts=3)"),
    (lambda: Trigger(), "Trigger() never fires", "a count of messages, or a time", "after_count(100)"),
    (lambda: Trigger(repeats=True), "Trigger() never fires", "a count of messages, or a time", "after_count(100)"),
    (lambda: Trigger(count=0), "Trigger: count=0", "1 or more", ""),
    (lambda: anything_else(Trigger)(first=timedelta(seconds=1)), "Trigger: first=datetime", "of milliseconds", ""),
    (lambda: Trigger(last=0), "Trigger: last=0", "of milliseconds, 1 or more", ""),
    (lambda: anything_else(Trigger)(count=1, repeats=1), "Trigger: repeats=1", "True or False", ""),
    (lambda: Retry(attempts=0), "attempts=0", "1 or more", ""),
    (lambda: Retry(attempts=True), "attempts=True", "a number of attempts", ""),
    (lambda: anything_else(Retry)(factor="x"), "factor='x'", "1.0 or more", ""),
    (lambda: anything_else(Retry)(on=OSError), "on=<class 'OSError'>", "a tuple of classes", "on=(OSError,)"),
    (lambda: anything_else(Retry)(on=("x",)), "on=('x',)", "a tuple of classes", "on=(OSError,)"),
    (lambda: anything_else(Serde)("x", int, 1, bytes), "Serde 'x': encode got 1", "a function", "not its result"),
    (lambda: anything_else(Serde)("x", int, bytes, 2), "Serde 'x': decode got 2", "a function", "not its result"),
    (lambda: tumbling(timedelta(0)), "tumbling: size is", "at least 1 ms", "timedelta(seconds="),
    (
        lambda: keyed().window(session(HOUR), aggregate(int, add), id="w"),
        "sessions merge, add cannot",
        "with merge",
        "merge=",
    ),
    (
        lambda: anything_keyed().window(count(), tumbling(HOUR), id="w"),
        "window 'w': its windows are Aggregate(name='count')",
        "tumbling(...)",
        "write window(tumbling(...), count(), id=...), in that order",
    ),
    (
        lambda: anything_keyed().window(tumbling(HOUR), count, id="w"),
        "window 'w': <function count>",
        "an aggregate",
        "write count()",
    ),
    (
        lambda: anything_keyed().window(tumbling(HOUR), msgpack(int), id="w"),
        "'w': Serde(name='msgpack:int')",
        "an aggregate",
        "count()",
    ),
    (
        lambda: anything_keyed().window(tumbling(HOUR), count(), trigger=count(), id="w"),
        "window 'w': trigger=Aggregate(name='count')",
        "a trigger",
        "after_count(100)",
    ),
    (lambda: Pipeline("a b"), "pipeline name 'a b'", "letters, digits", ""),
    (lambda: anything_of("p").stream("s", value=lambda: 0), "cannot be decoded", "a dataclass", ""),
    (lambda: anything_of("p").stream("s", value=Callable), "Callable cannot be decoded: bytes", "a dataclass", "Serde"),
    (lambda: anything_of("p").table("t", key=str, value=Callable[[int], int]), "no functions", "a dataclass", "Serde"),
    (lambda: anything_of("p").stream("s", value=type[int]), "no functions and no classes", "a dataclass", "Serde"),
    (lambda: Pipeline("p").stream("s", value=str, key=float), "float is not a type of key", "str, bytes, int", ""),
]


@pytest.mark.parametrize(("place", "wrong", "expected", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_an_error_explains(place: Any, wrong: str, expected: str, remedy: str) -> None:
    error = error_of(place, PipelineError)
    assert_explains(error, wrong, place, expected, remedy)
    assert " at 0x" not in str(error)


def test_a_stream_read_twice_names_both_lines() -> None:
    pipeline = Pipeline("p")
    first: Any = lambda: pipeline.stream("s", value=str)  # noqa: E731
    again: Any = lambda: pipeline.stream("s", value=str)  # noqa: E731
    first()
    error = error_of(again, PipelineError)
    assert_explains(error, "stream 's' is read twice", again, "one handle", "keep the handle")
    assert f":{first.__code__.co_firstlineno}" in str(error).splitlines()[0]


@pytest.mark.parametrize(
    "verb", [name for name in vars(KeyedStream) if name[0] != "_" and not hasattr(MessageStream, name)]
)
def test_each_verb_of_keyed_streams_alone_says_that_it_needs_a_key(verb: str) -> None:
    words = Pipeline("p").stream("words", value=str)
    with pytest.raises(PipelineError, match=f"{verb} on a stream without a key"):
        getattr(words, verb)
