"""Operators without state, compiled: what comes out of a stage for what goes in."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from engines.stages import feed, task_of
from fluvial.dsl import Message, MessageStream, Pipeline, skip
from fluvial.dsl.errors import MessageError


def ran(build: Callable[[MessageStream[int]], Any], *values: int) -> dict[str, list[Any]]:
    """The values that came out, by output."""
    pipeline = Pipeline("p")
    build(pipeline.stream("in", key=str, value=int))
    made = feed(task_of(pipeline), "in", *((b"k", b"%d" % value, 5, ()) for value in values))
    names = {one.id: one.name for one in pipeline.operators}
    outputs: dict[str, list[Any]] = {}
    for id, records in made.items():
        outputs.setdefault(getattr(pipeline.operator(id), "stream", names[id]), []).extend(it[1] for it in records)
    return outputs


@pytest.mark.parametrize(
    ("build", "values", "out"),
    [
        (lambda stream: stream.map(lambda it: it + 1).send_to("out"), (1, 2), [b"2", b"3"]),
        (lambda stream: stream.filter(lambda it: it > 1).send_to("out"), (1, 2), [b"2"]),
        (lambda stream: stream.flat_map(range).send_to("out"), (0, 2), [b"0", b"1"]),
        (lambda stream: stream.merge(stream.map(lambda it: -it)).send_to("out"), (1,), [b"1", b"-1"]),
        (lambda stream: stream.map(lambda _: None).send_to("out"), (1,), [None]),
    ],
    ids=["map", "filter", "flat_map", "merge", "none"],
)
def test_a_function_is_called_for_each_message(build: Any, values: tuple[int, ...], out: list[bytes | None]) -> None:
    assert Counter(ran(build, *values)["out"]) == Counter(out)


def test_a_message_takes_the_branch_of_the_first_predicate_that_holds() -> None:
    def build(stream: MessageStream[int]) -> None:
        for name, branch in zip(
            ("small", "even", "rest"), stream.split(lambda it: it < 3, lambda it: it % 2 == 0), strict=True
        ):
            branch.send_to(name)

    assert ran(build, 2, 4, 5) == {"small": [b"2"], "even": [b"4"], "rest": [b"5"]}


def test_map_messages_gets_the_decoded_key_and_sets_all_of_a_message() -> None:
    seen: list[Message[int]] = []

    def moved(message: Message[int]) -> Message[str]:
        seen.append(message)
        return Message("new", "v", message.timestamp + 1, (("h", b"1"),))

    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=int).map_messages(moved).send_to("out")
    made = feed(task_of(pipeline), "in", (b"k", b"7", 5, ()))
    assert seen == [Message("k", 7, 5, ())]
    assert made["send_to-3"] == [(b"new", b"v", 6, (("h", b"1"),))]


@pytest.mark.parametrize(("time", "headers"), [(2**63, ()), (1.5, ()), (5, (("h", "text"),))])
def test_a_message_that_no_system_could_hold_fails(time: Any, headers: Any) -> None:
    result = Message("k", 1, time, headers)
    with pytest.raises(MessageError, match="map_messages"):
        ran(lambda stream: stream.map_messages(lambda _: result).send_to("out"), 1)


def test_an_answer_that_is_always_true_is_no_answer() -> None:
    with pytest.raises(MessageError, match="which is always true"):
        ran(lambda stream: stream.filter(lambda it: it.bit_length).send_to("out"), 1)


def test_each_operator_counts_what_it_emits() -> None:
    pipeline = Pipeline("p", on_error=skip())
    stream = pipeline.stream("in", value=int).filter(lambda it: it > 1).flat_map(range)
    stream.send_to("out")
    task = task_of(pipeline)
    feed(task, "in", *((None, b"%d" % value, 5, ()) for value in (1, 2, 3)))
    assert {id: task.input_counts[id] for id in ("filter-2", "flat_map-3", "send_to-4")} == {
        "filter-2": 3,
        "flat_map-3": 2,
        "send_to-4": 5,
    }
