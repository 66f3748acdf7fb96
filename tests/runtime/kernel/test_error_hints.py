"""What is told of a failure: which value could not be encoded and for which stream, what a predicate has returned,
which limit a call has passed; and what to do about it."""

import asyncio
import math
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from fluvial.dsl import KeyedProcessor, KeyedStream, MessageError, Pipeline, Retry, Serde, ValueState, count, tumbling
from fluvial.runtime.testing import PipelineDriver
from generators.building import pipeline_of

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


async def of_another_loop(number: int) -> list[int]:
    other = asyncio.new_event_loop()
    answer: asyncio.Future[int] = other.create_future()
    other.close()
    await answer
    return [number]


async def one(number: int) -> Any:
    return number


def one_over(number: int) -> int:
    return 1 // (number - 3)


def refuse(_: Any) -> bytes:
    raise ValueError("not this one")


never = Serde("never", int, refuse, int)
anything: Any = lambda answer: lambda _: answer  # noqa: E731


def looked_up(stream: Any) -> None:
    users = pipeline_of(stream).remote_table("users", read=slow, timeout=2 * SECOND, retry=Retry(attempts=2))
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


@dataclass
class Click:
    number: int


def as_text(number: int) -> str:
    """It does not return what it says."""
    return number  # type: ignore[return-value]


def as_click(number: int) -> Click:
    """It does not return what it says, and JSON does not mind."""
    return {"number": f"x{number}"}  # type: ignore[return-value]


def good_click(number: int) -> Click:
    return Click(number)


REMEDY = "correct what is returned there, or the type that is declared for it"
FRUIT = Serde("fruit", bytes, refuse, refuse)


def moved(stream: Any, value: Any = None) -> None:
    stream.partition_by(str, id="b", key_type=str, value=value).map(str).send_to("out")


def looked_up_row(stream: Any) -> None:
    rows = pipeline_of(stream).table("rows", key=str, value=Click)
    stream.map(as_click).send_to(rows)
    stream.join(rows, lambda number, _: number, id="j").send_to("out")


def joined(stream: Any) -> None:
    clicks = stream.map(as_click)
    clicks.join(stream, lambda *_: 3, id="j", within=SECOND).send_to("out")


DECLARED: list[tuple[Callable[[Any], None], str, str, str | None]] = [
    (
        lambda s: moved(s.map(as_text)),
        "partition_by b failed on the message at in, partition 0, offset 0, key 'a': its value of type int cannot be"
        " encoded as str, the type that map(as_text) declares, for the stream p-b",
        f"{REMEDY}; or pass a Serde as value=",
        "s.map(as_text)",
    ),
    (
        lambda s: s.map(as_text).filter(bool).send_to("out"),
        "cannot be encoded as str, the type that map(as_text) declares, for the stream out",
        REMEDY,
        "s.map(as_text)",
    ),
    (
        lambda s: moved(s.map(as_click)),
        "partition_by b failed on the message at p-b, partition 0, offset 0, key \"{'number': 'x3'}\": its value cannot"
        " be read as Click, the type that map(as_click) declares: ValidationError: Expected `int`, got `str`",
        f"expected: a value of type Click to do: {REMEDY}",
        "s.map(as_click)",
    ),
    (
        lambda s: s.map(as_click).broadcast(id="b").map(str).send_to("out"),
        "broadcast b failed on the message at p-b, partition 0, offset 0, key 'a': its value cannot be read as Click,"
        " the type that map(as_click) declares",
        REMEDY,
        "s.map(as_click)",
    ),
    (
        lambda s: moved(s.map(good_click).merge(s.map(as_click))),
        "cannot be read as Click, the type that map(good_click) and map(as_click) declare: ",
        REMEDY,
        "partition_by(str, id=",
    ),
    (
        lambda s: moved(s.map(as_click), value=Click),
        "its value cannot be read as Click: ValidationError",
        "expected: a value of type Click, as value= says to do: give value= the type of what reaches it",
        "partition_by(str, id=",
    ),
    (
        looked_up_row,
        "join j failed on the message at in, partition 0, offset 1, key 'a': what it keeps cannot be read back as the"
        " type that map(as_click) declares: ValidationError",
        REMEDY,
        "stream.map(as_click).send_to(rows)",
    ),
    (
        joined,
        "what it keeps cannot be read back as the type that map(as_click) declares: ValidationError",
        REMEDY,
        "clicks = stream.map(as_click)",
    ),
]


@pytest.mark.parametrize(("build", "wrong", "remedy", "line"), DECLARED, ids=[case[1][:40] for case in DECLARED])
def test_a_value_of_another_type_than_is_declared_is_reported_where_that_is(
    build: Callable[[Any], None], wrong: str, remedy: str, line: str
) -> None:
    text = error_of(build, times=(0, 0))
    assert wrong in text
    assert remedy in text
    assert line in line_told(text)


def line_told(text: str) -> str:
    """The line of this file that an error names."""
    number = re.findall(r" at \S*test_error_hints.py:(\d+) expected: ", text)
    return Path(__file__).read_text().splitlines()[int(number[0]) - 1]


def test_what_a_stream_holds_is_named_by_its_serde() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=FRUIT).map(str).send_to("out")
    with (
        pytest.raises(
            MessageError, match="expected: a value of type fruit\n  to do: correct the message or value="
        ) as raised,
        PipelineDriver(pipeline) as driver,
    ):
        driver.records.send("in", [(None, b"plum", 0, ())])
    assert "0x" not in str(raised.value)


def late_number(stream: Any) -> None:
    numbers = stream.map(anything([math.inf]))
    numbers.window(tumbling(SECOND), count(), id="w", late_to="late").send_to("out")


def joined_number(stream: Any) -> None:
    numbers = stream.map(no_number)
    numbers.join(stream, lambda *_: 3, id="j", within=SECOND).send_to("out")


def no_number(_: int) -> float:
    return math.nan


@pytest.mark.parametrize(
    ("build", "wrong"),
    [
        (
            lambda s: s.map(anything({"a": [math.nan]})).send_to("out"),
            "its value of type dict cannot be encoded as json for the stream out: NotFinite: JSON has no nan, which is"
            " the value at .a[0] at ",
        ),
        (late_number, "cannot be encoded as json for the stream late: NotFinite: JSON has no inf, which is the value"),
        (joined_number, "key 'a': NotFinite: JSON has no nan at "),
    ],
    ids=["output", "late", "kept"],
)
def test_a_number_that_json_lacks_has_one_remedy(build: Callable[[Any], None], wrong: str) -> None:
    text = error_of(build, times=(0, 9000, 0))
    assert wrong in text
    assert text.count("expected: ") == text.count("to do: ") == 1
    assert "expected: finite numbers to do: write None for what is not known, or take value=msgpack(...)" in text


class Single(KeyedProcessor[str, int, Any]):
    def on_message(self, message: Any, context: Any) -> Any:
        return len(f"{message} {context}")


class Adding(KeyedProcessor[str, int, Any]):
    seen = ValueState(int, 0)

    def on_message(self, message: Any, context: Any) -> Any:
        state: Any = self.seen
        return [state + 1, message, context]


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
        lambda s: s.map(lambda n: n).send_to("out", value=str),
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
    (
        lambda s: s.deduplicate(SECOND, by=anything("x"), by_type=int, id="d").send_to("out"),
        "deduplicate d failed on the message at in, partition 0, offset 0, key 'a': by returned what cannot be encoded"
        " as int: 'x'",
        "expected: a value of type int, as declared to do: correct the function of by=, or by_type=",
    ),
    (
        lambda s: s.deduplicate(SECOND, by=anything(None), by_type=str, id="d").send_to("out"),
        "by returned what cannot be encoded as str: None",
        "a value of type str, as declared",
    ),
    (
        lambda s: s.deduplicate(SECOND, by=one_over, id="d").send_to("out"),
        "ZeroDivisionError: integer division or modulo by zero, raised at",
        "correct the function or the message",
    ),
    (
        lambda s: s.deduplicate(SECOND, id="d").map(one_over).send_to("out"),
        "map(one_over) failed on what deduplicate d emitted for key 'a' at time 0: ZeroDivisionError",
        "correct the function or the message",
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
    (lambda s: s.process(Single(), id="p").send_to("out"), "'int' object is not iterable", "return a list"),
    (lambda s: s.process(Adding(), id="p").send_to("out"), "'BoundValue' and 'int'", "use self.NAME.value"),
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
        lambda s: s.async_flat_map(of_another_loop, id="c").send_to("out"),
        "async_flat_map c failed on the message at in, partition 0, offset 0, key 'a': RuntimeError: Task",
        "make the client by resource(factory)",
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
    assert "test_error_hints.py:" in text


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
