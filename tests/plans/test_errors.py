"""Pipelines that have no plan: each error names the operator's line in the user's file."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import INT64, Pipeline, PlanError, collect, msgpack, tumbling
from fluvial.dsl.origin import Origin
from fluvial.planner import plan

HOUR = timedelta(hours=1)


def unread_border(pipeline: Pipeline) -> None:
    pipeline.stream("a", value=str).partition_by(str, id="b", key_type=str)


def untyped_border(pipeline: Pipeline) -> None:
    pipeline.stream("a", value=str).map(lambda x: x).partition_by(str, id="b", key_type=str).send_to("c")


def untyped_state(pipeline: Pipeline) -> None:
    keyed = pipeline.stream("a", value=str, key=str).map(lambda x: x)
    keyed.window(tumbling(HOUR), collect(), id="w").send_to("c")


def deduplicated_without_one_key(pipeline: Pipeline) -> None:
    words, numbers = pipeline.stream("a", value=str, key=str), pipeline.stream("b", value=str, key=int)
    merged: Any = words.merge(numbers)
    merged.deduplicate(HOUR, id="d").send_to("c")


def two_formats(pipeline: Pipeline) -> None:
    pipeline.stream("a", value=int).send_to("c", value=msgpack(int))
    pipeline.stream("b", value=int).send_to("c", value=int)


CASES: list[tuple[Callable[[Pipeline], Any], int, str, str, str]] = [
    (lambda p: p.stream("a", value=str), 0, "nothing reads what stream", "a terminal operator", ".send_to"),
    (unread_border, 1, "nothing reads what partition_by b", "a terminal operator", ".send_to"),
    (
        lambda p: p.stream("a", value=str).send_to("a"),
        0,
        "writes the stream 'a', which the pipeline reads",
        "read or",
        "",
    ),
    (untyped_border, 1, "the type of its values is not known", "a value type at the border", "value=YourType"),
    (untyped_state, 2, "keeps values whose type is not known", "a type to decode", "annotate"),
    (
        deduplicated_without_one_key,
        3,
        "deduplicate 'd' on messages without one key type",
        "a keyed stream",
        ".partition_by(...) before .deduplicate",
    ),
    (two_formats, 2, "send_to c writes json, and at ", "one format", "another stream"),
]
"""What writes a wrong pipeline, on which line below its first, and the error."""


@pytest.mark.parametrize(("place", "below", "wrong", "expected", "remedy"), CASES, ids=[case[2] for case in CASES])
def test_an_error_explains(place: Any, below: int, wrong: str, expected: str, remedy: str) -> None:
    pipeline = Pipeline("p")
    place(pipeline)
    assert_explains(error_of(lambda: plan(pipeline), PlanError), wrong, place, expected, remedy, below)


def test_an_empty_pipeline_names_its_own_line() -> None:
    place: Any = lambda: Pipeline("nothing")  # noqa: E731
    pipeline = place()
    error = error_of(lambda: plan(pipeline), PlanError)
    assert_explains(error, "pipeline 'nothing' has no operators", place, "a stream and a send_to", "pipeline.stream")


def test_an_output_of_two_formats_names_both_lines() -> None:
    pipeline = Pipeline("p")
    two_formats(pipeline)
    first = Origin(two_formats.__code__.co_filename, two_formats.__code__.co_firstlineno + 1)
    assert f"and at {first} msgpack" in str(error_of(lambda: plan(pipeline), PlanError)).splitlines()[0]


@pytest.mark.parametrize(
    "kinds", [(str, int), (list[int], dict[str, int]), (msgpack(int), msgpack(str)), (None, INT64)]
)
def test_several_types_of_one_format_may_go_to_one_stream(kinds: Any) -> None:
    pipeline: Any = Pipeline("p")
    words = pipeline.stream("a", value=str).map(lambda word: word)  # of no known type
    for kind in kinds:
        words.send_to("c", value=kind)
    plan(pipeline)
