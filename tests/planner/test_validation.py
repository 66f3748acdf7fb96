"""Checks of a whole pipeline: which arguments, ends, streams and tables have no plan."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import BatchPart, Message, Pipeline, PlanError, UsageError
from fluvial.planner.flow import Flow
from fluvial.planner.settings import Settings
from fluvial.planner.type_inference import flows
from fluvial.planner.validation import (
    check_arguments,
    check_ends,
    check_kinds,
    check_not_empty,
    check_sinks,
    check_streams,
    check_tables,
    written_by,
)

HOUR = timedelta(hours=1)


def source(pipeline: Pipeline) -> Any:
    return pipeline.stream("in", key=str, value=str)


def empty() -> None:
    check_not_empty(Pipeline("p"))


def open_end() -> None:
    pipeline = Pipeline("p")
    source(pipeline).map(str.upper)
    check_ends(pipeline)


def border_without_reader() -> None:
    pipeline = Pipeline("p")
    source(pipeline).partition_by(str, id="by", key_type=str)
    check_ends(pipeline)


def split_without_reader() -> None:
    pipeline = Pipeline("p")
    source(pipeline).split(str.isalpha)
    check_ends(pipeline)


def written_back() -> None:
    pipeline = Pipeline("p")
    source(pipeline).send_to("in")
    check_streams(pipeline)


def written_into_a_border() -> None:
    pipeline = Pipeline("p")
    source(pipeline).partition_by(str, id="by", key_type=str).send_to("out")
    pipeline.stream("more", value=str).send_to("p-by")
    check_streams(pipeline)


class Parts:
    """A sink that is told of parts of batches."""

    def open(self) -> None: ...
    def begin(self, part: BatchPart) -> None: ...
    def write(self, messages: Sequence[Message[str]]) -> None: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...


def one_sink_of_two() -> None:
    pipeline, parts = Pipeline("p"), Parts()
    source(pipeline).sink(parts, id="first")
    more = pipeline.stream("more", value=str)
    more.sink(parts, id="second")
    check_sinks(pipeline)


def unused_table() -> None:
    pipeline = Pipeline("p")
    pipeline.table("users", key=str, value=str)
    check_tables(pipeline)


def changes_of_a_filled_table() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("users", key=str, value=str)
    source(pipeline).send_to(table)
    table.changes().send_to("out")
    check_tables(pipeline)


REFUSED: list[tuple[Callable[[], object], str, str, str]] = [
    (empty, "pipeline 'p' has no operators", "a stream and a send_to", "pipeline.stream(...)"),
    (open_end, "nothing reads what map(upper) emits", "a terminal operator", ".send_to(...)"),
    (border_without_reader, "nothing reads what partition_by by emits", "a terminal operator", ""),
    (split_without_reader, "nothing reads what branch(1, ", "a terminal operator", ""),
    (written_back, "send_to writes the stream 'in', which the pipeline reads at", "read or written", "partition_by"),
    (written_into_a_border, "the stream 'p-by' is also an intermediate stream of", "a name of its own", "rename"),
    (one_sink_of_two, "sink second has the sink of sink first, which has a method begin", "of its own", "a second"),
    (unused_table, "nobody uses the table 'users'", "a table that is looked up", "leave it out"),
    (changes_of_a_filled_table, "follows the changes of table 'users'", "read from a stream", "use the stream"),
]


@pytest.mark.parametrize(("check", "wrong", "expected", "remedy"), REFUSED, ids=[case[0].__name__ for case in REFUSED])
def test_what_has_no_plan_is_refused(check: Callable[[], object], wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(check, PlanError), wrong, None, expected, remedy)


def test_a_branch_may_go_unread_if_another_is_read() -> None:
    pipeline = Pipeline("p")
    letters, _ = source(pipeline).split(str.isalpha)
    letters.send_to("letters")
    check_ends(pipeline)


def test_sinks_of_their_own_may_be_told_of_parts() -> None:
    pipeline = Pipeline("p")
    for id, stream in zip("ab", source(pipeline).split(str.isalpha), strict=True):
        stream.sink(Parts(), id=id)
    check_sinks(pipeline)


def test_a_table_that_is_filled_is_used() -> None:
    pipeline = Pipeline("p")
    source(pipeline).send_to(pipeline.table("users", key=str, value=str))
    check_tables(pipeline)


def test_an_output_may_have_several_writers() -> None:
    pipeline = Pipeline("p")
    for stream in source(pipeline).split(str.isalpha):
        stream.send_to("out")
    check_streams(pipeline)


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({"pipeline": "p"}, "a plan of 'p'"),
        ({"partitions": {"in": 0}}, "partitions={'in': 0}"),
        ({"partitions": {"in": True}}, "partitions={'in': True}"),
        ({"partitions": [1]}, "partitions=[1]"),
        ({"settings": {}}, "settings={}"),
    ],
)
def test_arguments_of_wrong_types_are_refused(arguments: dict[str, Any], wrong: str) -> None:
    good = {"pipeline": Pipeline("p"), "partitions": {"in": 1}, "settings": Settings()}
    check_arguments(**good)
    assert wrong in str(error_of(lambda: check_arguments(**{**good, **arguments}), UsageError))


def test_an_operator_is_checked_as_its_kind_says() -> None:
    pipeline = Pipeline("p")
    source(pipeline).deduplicate(HOUR, id="once").send_to("out")
    known = flows(pipeline)
    check_kinds(pipeline, known)
    without_key = {id: Flow(None, flow.value) for id, flow in known.items()}
    assert "deduplicate 'once' on" in str(error_of(lambda: check_kinds(pipeline, without_key), PlanError))


def test_an_operator_writes_the_streams_that_its_kind_says() -> None:
    pipeline = Pipeline("p")
    source(pipeline).partition_by(str, id="by", key_type=str).map(str.upper).send_to("out")
    assert [written_by(pipeline, operator) for operator in pipeline.operators] == [(), ("p-by",), (), ("out",)]
