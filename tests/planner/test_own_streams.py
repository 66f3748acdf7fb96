"""Names of streams that a pipeline makes for itself: whoever else wants one is refused before anything runs."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import assert_explains, error_of
from fluvial.dsl import (
    KeyedStream,
    MessageStream,
    Pipeline,
    PipelineError,
    PlanError,
    count,
    dead_letter,
    fail,
    tumbling,
)
from fluvial.planner import Plan, plan
from fluvial.runtime.systems import MemorySystem

LONGEST = 200
HOURS = tumbling(timedelta(hours=1))


def source(pipeline: Pipeline) -> MessageStream[str]:
    return pipeline.stream("in", value=str)


def keyed(pipeline: Pipeline) -> KeyedStream[str, str]:
    return pipeline.stream("keyed", key=str, value=str)


def windowed(pipeline: Pipeline, id: str) -> None:
    keyed(pipeline).window(HOURS, count(), id=id).send_to("counts")


def changelog_of_another(pipeline: Pipeline) -> None:
    windowed(pipeline, "w")
    source(pipeline).partition_by(str, id="w-changelog", key_type=str).send_to("out")


def changelog_as_output(pipeline: Pipeline) -> None:
    windowed(pipeline, "w")
    source(pipeline).send_to("p-w-changelog")


def late(pipeline: Pipeline) -> None:
    keyed(pipeline).window(HOURS, count(), id="w", late_to="p-checkpoints").send_to("counts")


def bordered(id: str) -> Callable[[Pipeline], None]:
    return lambda pipeline: source(pipeline).partition_by(str, id=id, key_type=str).send_to("out")


CASES: list[tuple[Callable[[Pipeline], Any], int, str, str]] = [
    (bordered("dead-letters"), 0, "partition_by dead-letters writes the stream 'p-dead-letters'", "another id"),
    (
        bordered("coordinator"),
        0,
        "'p-coordinator', which is kept for what the pipeline's containers agree on",
        "another id",
    ),
    (bordered("checkpoints"), 0, "'p-checkpoints', which is kept for the pipeline's checkpoints", "another id"),
    (changelog_of_another, 2, "'p-w-changelog', which is kept for the changelog of window w, at", "another id"),
    (changelog_as_output, 2, "send_to p-w-changelog writes the stream 'p-w-changelog'", "another stream"),
    (lambda p: source(p).send_to("p-dead-letters"), 0, "kept for the pipeline's dead letters", "another stream"),
    (lambda p: p.stream("p-dead-letters", value=str).send_to("out"), 0, "reads the stream 'p-dead-", "another stream"),
    (late, 1, "window w writes the stream 'p-checkpoints'", "another stream"),
]
"""What writes a wrong pipeline, on which line below its first, and the error."""


@pytest.mark.parametrize(("place", "below", "wrong", "remedy"), CASES, ids=[case[2] for case in CASES])
def test_a_stream_that_the_pipeline_keeps_is_refused_to_all_else(
    place: Any, below: int, wrong: str, remedy: str
) -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    place(pipeline)
    assert_explains(error_of(lambda: plan(pipeline), PlanError), wrong, place, "of its own", remedy, below)


def test_who_has_no_dead_letters_may_use_their_name() -> None:
    pipeline = Pipeline("p")
    source(pipeline).send_to("p-dead-letters")
    assert plan(pipeline).stream("p-dead-letters").kind == "output"


@pytest.mark.parametrize("write", [Pipeline, lambda id: source(Pipeline("p")).partition_by(str, id=id, key_type=str)])
def test_an_id_has_a_length(write: Callable[[str], Any]) -> None:
    write("i" * LONGEST)
    assert_explains(error_of(lambda: write("i" * (LONGEST + 1)), PipelineError), " 'iii", None, "at most 200", "")


@given(st.integers(1, LONGEST), st.integers(1, LONGEST), st.integers(1, LONGEST), st.booleans())
def test_what_has_a_plan_has_names_that_a_topic_may_have(name: int, border: int, window: int, letters: bool) -> None:
    pipeline = Pipeline("p" * name, on_error=dead_letter() if letters else fail())
    bordered("b" * border)(pipeline)
    windowed(pipeline, "w" * window)
    ends = ("b" * border, "w" * window + "-changelog", "checkpoints", "coordinator", "dead-letters" if letters else "")
    longest = max(name + len("-" + end) for end in ends)
    if longest > LONGEST:
        with pytest.raises(PlanError, match="choose a shorter id"):
            plan(pipeline)
    else:
        make_all(plan(pipeline))


def make_all(planned: Plan) -> None:
    """Make all streams of a plan, as a run does."""
    admin = MemorySystem().admin()
    for stream in planned.streams:
        admin.create(stream.name, 1)
    for store in planned.stores:
        admin.create(store.changelog, 1)
