"""Tables as they are written: what they say of themselves, and what is refused where it stands."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PipelineError, Table
from fluvial.dsl.operators import JoinTable, TableOf

HOUR = timedelta(hours=1)


def users(pipeline: Pipeline) -> Table[str, str]:
    return pipeline.table("users", key=str, value=str)


def both(left: Any, right: Any) -> str:
    return f"{left}{right}"


def test_a_table_is_read_before_others_from_the_stream_of_its_name() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("shop.users", key=str, value=str)
    source, kept = pipeline.operators
    assert (repr(table), kept.id, kept.inputs) == ("Table(shop-users)", "shop-users", (source.id,))
    assert (source.kind, getattr(source, "bootstrap", None)) == ("stream", True)


def test_a_table_that_is_filled_reads_no_stream() -> None:
    pipeline = Pipeline("p")
    table = users(pipeline)
    pipeline.stream("in", key=str, value=str).send_to(table)
    assert [operator.kind for operator in pipeline.operators] == ["table", "stream", "send_to"]
    assert table.operator.inputs == ()


def test_ids_are_not_given_twice_though_a_source_is_gone() -> None:
    pipeline = Pipeline("p")
    table = users(pipeline)
    stream = pipeline.stream("in", key=str, value=str)
    stream.send_to(table)
    stream.map(str.upper).map(str.lower).send_to("out")
    assert len({operator.id for operator in pipeline.operators}) == len(pipeline.operators)


def test_a_join_looks_a_table_up_and_is_fed_by_the_stream_alone() -> None:
    pipeline = Pipeline("p")
    table = users(pipeline)
    joined = pipeline.stream("in", key=str, value=str).join(table, both, id="join").operator
    assert isinstance(joined, JoinTable)
    assert isinstance(table.operator, TableOf)
    assert (joined.uses_table, joined.fed_by) == ("users", ("stream-3",))


def stream(pipeline: Pipeline) -> Any:
    return pipeline.stream("in", key=str, value=str)


def join(**options: Any) -> Callable[[], Any]:
    def call() -> Any:
        pipeline = Pipeline("p")
        return stream(pipeline).join(users(pipeline), both, **{"id": "join", **options})

    return call


def put(**options: Any) -> Callable[[], Any]:
    def call() -> Any:
        pipeline = Pipeline("p")
        return stream(pipeline).send_to(users(pipeline), **options)

    return call


def join_itself() -> Any:
    table = users(Pipeline("p"))
    return table.join(table, both, id="join")


def join_a_stream() -> Any:
    pipeline = Pipeline("p")
    return users(pipeline).join(stream(pipeline), both, id="join")


def join_another_pipelines() -> Any:
    return stream(Pipeline("p")).join(users(Pipeline("q")), both, id="join")


def put_without_key() -> Any:
    pipeline = Pipeline("p")
    unkeyed: Any = pipeline.stream("in", value=str)
    return unkeyed.send_to(users(pipeline))


def put_into_another_pipelines() -> Any:
    return stream(Pipeline("p")).send_to(users(Pipeline("q")))


def put_into_a_join() -> Any:
    pipeline = Pipeline("p")
    other = pipeline.table("others", key=str, value=str)
    return stream(pipeline).send_to(users(pipeline).join(other, both, id="join"))


def read_twice() -> Any:
    pipeline = Pipeline("p")
    users(pipeline)
    return pipeline.stream("users", value=str)


def key_of_no_type() -> Any:
    key: Any = float
    return Pipeline("p").table("users", key=key, value=str)


CASES = [
    (join(how="outer"), 'how="outer"', '"inner" or "left"', "changes()"),
    (join(how="full"), "how='full'", '"inner" or "left"', ""),
    (join(within=HOUR), "has within=", "the row that the table has", "leave out within="),
    (join(retain="latest"), "has retain=", "the row that the table has", "leave out retain="),
    (join_itself, "joins a table with itself", "two tables", ""),
    (join_a_stream, "join 'join' got KeyedStream", "a table of the same pipeline", ""),
    (join_another_pipelines, "join 'join' got Table(users)", "of the same pipeline", ""),
    (put(key=str), "send_to table 'users': key=", "the keys of the table", "partition_by"),
    (put(value=str), "send_to table 'users': value=", "the type that the table has", "leave it out"),
    (put_without_key, "the stream has no key", "the keys of the table", "partition_by"),
    (put_into_another_pipelines, "of another pipeline", "a table of this pipeline", ""),
    (put_into_a_join, "which is joined of two", "Pipeline.table", ""),
    (read_twice, "stream 'users' is read twice", "one handle per stream or table", ".changes()"),
    (key_of_no_type, "table 'users': float is not a type of key", "str, bytes, int", ""),
]


@pytest.mark.parametrize(("call", "wrong", "expected", "remedy"), CASES, ids=[case[1] for case in CASES])
def test_what_makes_no_table_is_refused(call: Callable[[], Any], wrong: str, expected: str, remedy: str) -> None:
    assert_explains(error_of(call, PipelineError), wrong, None, expected, remedy)
