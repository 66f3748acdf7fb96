"""Operators that keep nothing, in a plan: the types that they emit, and their options."""

from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import Message, Pipeline
from fluvial.planner import PlannedOperator, plan


def length(word: str) -> int:
    return len(word)


def letters(word: str) -> list[bytes]:
    return [word.encode()]


def moved(message: Message[str]) -> Message[float]:
    return Message(message.key, 1.0, message.timestamp)


def built(verb: str, *arguments: Any) -> PlannedOperator:
    pipeline = Pipeline("p")
    words: Any = pipeline.stream("words", key=str, value=str)
    getattr(words, verb)(*arguments).send_to("out")
    return plan(pipeline).operators[1]


@pytest.mark.parametrize(
    ("verb", "fn", "key", "value"),
    [
        ("map", length, "str", "int"),
        ("filter", length, "str", "str"),
        ("flat_map", letters, "str", "bytes"),
        ("map_messages", moved, None, "float"),
        ("map", lambda word: word, "str", None),
    ],
)
def test_a_function_says_what_is_emitted(verb: str, fn: Any, key: str | None, value: str | None) -> None:
    operator = built(verb, fn)
    assert (operator.key, operator.value) == (key, value)
    assert operator.details["function"] == getattr(fn, "__name__").strip("<>")  # noqa: B009 - of a function of any kind


def test_branches_emit_what_the_split_is_given() -> None:
    pipeline = Pipeline("p")
    for branch in pipeline.stream("words", key=str, value=str).split(str.isalpha, length):
        branch.send_to("out")
    _, split, *branches = plan(pipeline).operators[:5]
    assert split.details == {"predicates": "isalpha, length"}
    assert [(one.key, one.value, one.details) for one in branches] == [
        ("str", "str", {"place": place}) for place in ("1", "2", "3")
    ]


@pytest.mark.parametrize(
    ("other", "key", "value"),
    [
        ({"key": str, "value": str}, "str", "str"),
        ({"key": str, "value": int}, "str", None),
        ({"key": int, "value": str}, None, "str"),
        ({"value": str}, None, "str"),
    ],
)
def test_a_merge_emits_the_types_that_all_inputs_share(other: Any, key: str | None, value: str | None) -> None:
    pipeline = Pipeline("p")
    words: Any = pipeline.stream("words", key=str, value=str)
    words.merge(pipeline.stream("others", **other)).send_to("out")
    merge = plan(pipeline).operators[2]
    assert (merge.key, merge.value, merge.details) == (key, value, {})


def source(**options: Any) -> dict[str, str]:
    pipeline = Pipeline("p")
    pipeline.stream("words", value=str, **options).send_to("out")
    return plan(pipeline).operators[0].details


def test_a_source_shows_how_it_tells_time_and_what_comes_first() -> None:
    second = timedelta(seconds=1)
    assert source() == {"timestamp": "of the record"}
    assert source(timestamp=len, out_of_order=second, idle_after=60 * second, bootstrap=True) == {
        "timestamp": "len",
        "out_of_order": "1 s",
        "idle_after": "1 min",
        "bootstrap": "first",
    }
