"""Borders in a plan: the types that cross them, and what cannot cross."""

from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import MessageStream, Pipeline, PlanError
from fluvial.planner import plan
from fluvial.planner.type_inference import typed_by


def source() -> tuple[Pipeline, MessageStream[str]]:
    pipeline = Pipeline("p")
    return pipeline, pipeline.stream("words", key=bytes, value=str)


def untyped(stream: MessageStream[str]) -> MessageStream[Any]:
    return stream.map(lambda word: [word])


def test_partition_by_gives_its_key_and_the_values_as_they_come() -> None:
    pipeline, words = source()
    words.partition_by(len, id="by", key_type=int).send_to("out")
    operator = plan(pipeline).operator("by")
    assert (operator.key, operator.value, operator.writes, operator.details) == (
        "int",
        "str",
        ("p-by",),
        {"key": "len"},
    )


def test_a_broadcast_takes_the_key_away() -> None:
    pipeline, words = source()
    words.broadcast(id="all").send_to("out")
    operator = plan(pipeline).operator("all")
    assert (operator.key, operator.value, operator.writes) == (None, "str", ("p-all",))


@pytest.mark.parametrize("kind", ["partition_by", "broadcast"])
def test_a_type_that_is_given_counts_for_the_far_side(kind: str) -> None:
    pipeline, words = source()
    rows = untyped(words)
    far: Any = (
        rows.partition_by(len, id="by", key_type=int, value=list[str])
        if kind == "partition_by"
        else rows.broadcast(id="by", value=list[str])
    )
    far.send_to("out")
    assert plan(pipeline).operator("by").value == "list[str]"
    assert typed_by(pipeline, far.operator) == (far.operator,)


@pytest.mark.parametrize("kind", ["partition_by", "broadcast"])
def test_values_of_no_known_type_cannot_cross(kind: str) -> None:
    pipeline, words = source()
    rows = untyped(words)
    far: Any = rows.partition_by(len, id="by", key_type=int) if kind == "partition_by" else rows.broadcast(id="by")
    far.send_to("out")
    wrong = f"{kind} 'by': the type of its values is not known"
    assert_explains(error_of(lambda: plan(pipeline), PlanError), wrong, None, "a value type", "pass value=YourType")
