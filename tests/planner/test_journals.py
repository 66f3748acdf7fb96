"""Journals of calls in a plan: where they are, and what cannot have one."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import KeyedStream, Pipeline, PipelineError, PlanError, count, tumbling
from fluvial.planner import plan
from fluvial.planner.journals import journals_in, journals_of
from fluvial.runtime.preflight.unsupported import limitations


async def asked(value: Any) -> list[str]:
    return [str(value)]


async def unknown(value: Any):  # type: ignore[no-untyped-def]
    return [value]


async def anything(value: Any) -> list[Any]:
    return [value]


@dataclass
class One:
    a: int


@dataclass
class Two:
    a: int


async def either(value: Any) -> list[One | Two]:
    return [One(value)]


def keyed(pipeline: Pipeline) -> KeyedStream[str, str]:
    return pipeline.stream("in", key=str, value=str)


def test_a_journal_has_a_partition_for_each_task_number_and_is_shown() -> None:
    pipeline = Pipeline("p")
    keyed(pipeline).async_flat_map(asked, id="ask", journal=True).send_to("out")
    made = plan(pipeline, partitions={"in": 3})
    assert [(one.operator, one.stream, one.stage.tasks) for one in journals_of(made)] == [("ask", "p-ask-journal", 3)]
    assert journals_in(made, "in") == {"ask": "p-ask-journal"}
    assert journals_in(made, "another") == {}
    assert "journal" in made.operator("ask").details
    assert [one.subject for one in limitations(made, "spark", "log:x")] == ["journal=True of async_flat_map ask"]


def test_without_a_journal_a_plan_is_as_it_was() -> None:
    pipeline = Pipeline("p")
    keyed(pipeline).async_flat_map(asked, id="ask").send_to("out")
    made = plan(pipeline)
    assert journals_of(made) == []
    assert "journal" not in made.operator("ask").details
    assert limitations(made, "spark", "log:x") == []


def test_the_type_of_results_may_be_told() -> None:
    pipeline = Pipeline("p")
    keyed(pipeline).async_flat_map(unknown, id="ask", journal=True, result=int).send_to("out")
    assert plan(pipeline).operator("ask").value == "int"


@pytest.mark.parametrize(("fn", "wrong"), [(unknown, "does not say the type"), (anything, "does not say the type")])
def test_results_of_no_known_type_are_refused(fn: Any, wrong: str) -> None:
    pipeline = Pipeline("p")
    keyed(pipeline).async_flat_map(fn, id="ask", journal=True).send_to("out")
    error = error_of(lambda: plan(pipeline), PlanError)
    assert_explains(error, wrong, None, "a type", "result=int")


def test_results_that_cannot_be_decoded_are_refused() -> None:
    pipeline = Pipeline("p")
    keyed(pipeline).async_flat_map(either, id="ask", journal=True).map(str).send_to("out")
    error = error_of(lambda: plan(pipeline), PlanError)
    assert_explains(error, "results of type One | Two cannot be decoded", None, "a dataclass", "a Serde")


def deduplicated(stream: KeyedStream[str, str]) -> Any:
    return stream.deduplicate(id="once", within=timedelta(hours=1))


def windowed(stream: KeyedStream[str, str]) -> Any:
    return stream.window(tumbling(timedelta(hours=1)), count(), id="counts")


def bordered(stream: KeyedStream[str, str]) -> Any:
    return deduplicated(stream).partition_by(str, id="by", key_type=str)


@pytest.mark.parametrize("before", [windowed, bordered])
def test_messages_of_streams_and_panes_have_names(before: Callable[[Any], Any]) -> None:
    pipeline = Pipeline("p")
    before(keyed(pipeline)).async_flat_map(asked, id="ask", journal=True).send_to("out")
    assert [one.operator for one in journals_of(plan(pipeline))] == ["ask"]


def test_what_nothing_names_after_a_crash_is_refused() -> None:
    pipeline = Pipeline("p")
    deduplicated(keyed(pipeline)).map(str).async_flat_map(asked, id="ask", journal=True).send_to("out")
    error = error_of(lambda: plan(pipeline), PlanError)
    assert_explains(error, "journal=True behind deduplicate once", None, "panes of a window", "partition_by")


def test_a_stream_of_the_name_of_a_journal_is_refused() -> None:
    pipeline = Pipeline("p")
    keyed(pipeline).async_flat_map(asked, id="ask", journal=True).send_to("p-ask-journal")
    error = error_of(lambda: plan(pipeline), PlanError)
    assert_explains(error, "the journal of async_flat_map ask", None, "a stream of its own", "another stream")


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        ({"journal": 1}, "journal=1"),
        ({"result": int}, "result= without journal=True"),
        ({"journal": True, "result": One | Two}, "result=One | Two cannot be decoded"),
    ],
)
def test_wrong_options_are_refused_at_once(options: Any, wrong: str) -> None:
    pipeline = Pipeline("p")
    error = error_of(lambda: keyed(pipeline).async_flat_map(asked, id="ask", **options), PipelineError)
    assert wrong in str(error)
