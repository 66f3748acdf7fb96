"""The verbs of a keyed stream: which keep the key, which record each adds, and what is refused where it stands."""

from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import (
    Context,
    KeyedProcessor,
    KeyedStream,
    Message,
    MessageStream,
    Pipeline,
    PipelineError,
    Tag,
    Tagged,
    count,
    tumbling,
)
from fluvial.dsl import operators as ops

HOUR = timedelta(hours=1)
HIGH, LOW = Tag("high", int), Tag("low", str)


class Sorter(KeyedProcessor[str, int, int]):
    high = HIGH

    def on_message(self, message: Message[int], context: Context[str]) -> Iterable[int | Tagged[int]]:  # noqa: ARG002
        return [message.value]


async def look(number: int) -> list[int]:
    return [number]


def add(left: int, right: int | None) -> int:
    return left + (right or 0)


def numbers(pipeline: Pipeline | None = None, name: str = "numbers") -> KeyedStream[str, int]:
    return (pipeline or Pipeline("p")).stream(name, key=str, value=int)


def two() -> tuple[KeyedStream[str, int], KeyedStream[str, int]]:
    pipeline = Pipeline("p")
    return numbers(pipeline, "left"), numbers(pipeline, "right")


def joined(**options: Any) -> Callable[[], object]:
    def call() -> object:
        left, right = two()
        rules: dict[str, Any] = {"id": "join", "within": HOUR, **options}
        return left.join(right, add, **rules)

    return call


KEEP_THE_KEY: list[Callable[[KeyedStream[str, int]], MessageStream[Any]]] = [
    lambda stream: stream.map(abs),
    lambda stream: stream.filter(bool),
    lambda stream: stream.split(bool)[0],
    lambda stream: stream.flat_map(lambda number: [number]),
    lambda stream: stream.async_flat_map(look, id="look"),
    lambda stream: stream.merge(stream.map(abs)),
    lambda stream: stream.window(tumbling(HOUR), count(), id="window"),
    lambda stream: stream.join(stream.map(abs), add, id="join", within=HOUR),
    lambda stream: stream.deduplicate(HOUR, id="once"),
    lambda stream: stream.process(Sorter(), id="sort"),
    lambda stream: stream.process(Sorter(), id="sort").tagged(HIGH),
]


@pytest.mark.parametrize("verb", KEEP_THE_KEY)
def test_a_verb_keeps_the_key(verb: Callable[[KeyedStream[str, int]], MessageStream[Any]]) -> None:
    assert isinstance(verb(numbers()), KeyedStream)


@pytest.mark.parametrize(
    "verb",
    [
        lambda stream: stream.map_messages(lambda message: message),
        lambda stream: stream.broadcast(id="all"),
        lambda stream: stream.merge(stream.map_messages(lambda message: message)),
    ],
)
def test_a_verb_that_loses_the_key_says_so(verb: Callable[[Any], Any]) -> None:
    assert type(verb(numbers())) is MessageStream


def test_a_join_of_streams_is_fed_by_both_in_order() -> None:
    left, right = two()
    record = left.join(right, add, id="join", within=HOUR, how="left", retain="latest").operator
    assert isinstance(record, ops.JoinStreams)
    assert record.inputs == (left.operator.id, right.operator.id)
    assert (record.fn, record.within, record.how, record.retain) == (add, 3_600_000, "left", "latest")


def test_a_window_has_its_rules() -> None:
    record = numbers().window(tumbling(HOUR), count(), id="n", lateness=HOUR, late_to="late").operator
    assert isinstance(record, ops.WindowBy)
    assert (record.assigner, record.lateness, record.late_to, record.accumulate) == (
        tumbling(HOUR),
        3_600_000,
        "late",
        True,
    )


def test_a_join_with_a_remote_table_calls_it_and_reads_no_second_stream() -> None:
    async def read(key: str) -> int | None:
        return len(key)

    pipeline = Pipeline("p")
    stream = numbers(pipeline)
    record = stream.join(pipeline.remote_table("rows", read=read), add, id="join").operator
    assert isinstance(record, ops.JoinRemote)
    assert (record.inputs, record.joined, record.async_call.order) == ((stream.operator.id,), add, "key")


def test_send_to_ends_a_path() -> None:
    stream = numbers()
    stream.send_to("out", key=str)
    *_, record = stream._graph
    assert isinstance(record, ops.SendTo)
    assert (record.stream, record.key, record.inputs) == ("out", str, (stream.operator.id,))


def test_a_side_output_is_one_operator_however_often_it_is_asked_for() -> None:
    sorted_ = numbers().process(Sorter(), id="sort")
    first, second = sorted_.tagged(HIGH), sorted_.tagged(HIGH)
    assert first.operator is second.operator
    assert first.operator.inputs == ("sort",)


def joined_with_itself() -> object:
    stream = numbers()
    return stream.join(stream, add, id="join", within=HOUR)


REFUSED: list[tuple[Callable[[], object], str, str, str]] = [
    (joined(within=None), "join 'join' has no within=", "how far apart in time", "within=timedelta(minutes=10)"),
    (
        lambda: (it := numbers()).join(it, add, id="j", within=HOUR),
        "joins a stream with itself",
        "two streams",
        "use map",
    ),
    (
        lambda: numbers().join(numbers(), add, id="j", within=HOUR),
        "join 'j' got KeyedStream(stream numbers)",
        "a stream or table of the same pipeline",
        "",
    ),
    (
        lambda: numbers().process(Sorter(), id="sort").tagged(LOW),
        "which is no tag of Sorter",
        "one of its tags: 'high'",
        "declare it as an attribute of Sorter",
    ),
    (
        lambda: numbers().process(Sorter(), id="sort").filter(bool).tagged(HIGH),
        "tagged on filter 'filter-3'",
        "the output of a processor",
        "call .tagged on what .process returned",
    ),
]


@pytest.mark.parametrize(("call", "wrong", "expected", "remedy"), REFUSED, ids=[case[1] for case in REFUSED])
def test_what_makes_no_operator_is_refused(call: Callable[[], object], wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(call, PipelineError), wrong, None, expected, remedy)
