"""How many partitions each stream of a plan has, and which counts cannot meet."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import KeyedStream, Pipeline, PlanError
from fluvial.planner.partition_counts import counts, table_streams
from fluvial.planner.settings import Settings

HOUR = timedelta(hours=1)


def add(left: int, right: int) -> int:
    return left + right


def sized(pipeline: Pipeline, given: Mapping[str, int], **settings: Any) -> dict[str, int]:
    return counts(pipeline, given, Settings(**settings))


def grouped() -> Pipeline:
    """A source, and what it hands to the next stage by key."""
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out")
    return pipeline


def joined(id: str = "by") -> Pipeline:
    """A keyed stream, joined with one that is brought to its key."""
    pipeline = Pipeline("p")
    left = pipeline.stream("left", key=str, value=int)
    right = pipeline.stream("right", value=int).partition_by(str, id=id, key_type=str)
    left.join(right, add, id="join", within=HOUR).send_to("out")
    return pipeline


def broadcast() -> Pipeline:
    pipeline = Pipeline("p")
    rules = pipeline.stream("rules", value=str).broadcast(id="rules-all")
    pipeline.stream("words", value=str).merge(rules).send_to("out")
    return pipeline


def test_a_source_of_unknown_size_has_one_partition() -> None:
    assert sized(grouped(), {})["in"] == 1


def test_an_intermediate_stream_is_as_wide_as_the_widest_input_or_output() -> None:
    assert sized(grouped(), {"in": 3})["p-by"] == 3
    assert sized(grouped(), {"in": 3, "out": 5})["p-by"] == 5


def test_the_setting_counts_more_than_the_width_of_others() -> None:
    assert sized(grouped(), {"in": 3}, intermediate_partitions=8)["p-by"] == 8


def test_an_intermediate_stream_that_exists_stays_as_wide_as_it_is() -> None:
    assert sized(grouped(), {"in": 3, "p-by": 4}, intermediate_partitions=8)["p-by"] == 4


def test_a_stream_that_meets_another_is_as_wide_as_that() -> None:
    assert sized(joined(), {"left": 2, "right": 7}, intermediate_partitions=8)["p-by"] == 2


def test_a_count_is_handed_on_through_several_operators() -> None:
    pipeline = Pipeline("p")
    known = pipeline.stream("known", key=str, value=int)
    middle, last = (
        pipeline.stream(name, value=int).partition_by(str, id=f"by-{name}", key_type=str) for name in ("b", "c")
    )
    middle.join(last, add, id="second", within=HOUR).send_to("out")
    known.join(middle, add, id="first", within=HOUR).send_to("out")
    found = sized(pipeline, {"known": 3, "b": 9, "c": 9})
    assert (found["p-by-b"], found["p-by-c"]) == (3, 3)


def test_the_streams_of_tables_size_nothing() -> None:
    pipeline = grouped()
    pipeline.table("users", key=str, value=str).changes().send_to("changes")
    assert table_streams(pipeline) == {"users"}
    assert sized(pipeline, {"in": 2, "users": 9})["p-by"] == 2


def test_a_broadcast_has_a_partition_for_each_task_that_reads_it() -> None:
    assert sized(broadcast(), {"words": 4, "rules": 2})["p-rules-all"] == 4
    assert sized(broadcast(), {"rules": 2}, intermediate_partitions=8)["p-rules-all"] == 1


def test_a_broadcast_whose_stream_has_another_count_is_refused() -> None:
    error = error_of(lambda: sized(broadcast(), {"words": 4, "p-rules-all": 3}), PlanError)
    wrong = "broadcast 'rules-all': the stream 'p-rules-all' has 3 partitions, and 4 tasks read it"
    assert_explains(error, wrong, None, "a partition for each task", "remove that stream")


@pytest.mark.parametrize("given", [{"left": 2, "p-by": 3}, {"p-by": 3}])
def test_streams_that_meet_must_have_equal_counts(given: Mapping[str, int]) -> None:
    error = error_of(lambda: sized(joined(), given), PlanError)
    wrong = f"join 'join' joins streams with different partition counts: left has {given.get('left', 1)}, p-by has 3"
    assert_explains(error, wrong, None, "equal counts", ".partition_by(...)")


def test_what_fills_a_table_meets_what_looks_it_up() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("latest", key=str, value=int)
    filling: KeyedStream[str, int] = pipeline.stream("fill", key=str, value=int)
    filling.send_to(table)
    pipeline.stream("asked", key=str, value=int).join(table, add, id="join").send_to("out")
    assert_explains(
        error_of(lambda: sized(pipeline, {"fill": 2, "asked": 5}), PlanError),
        "joins streams with different partition counts: asked has 5, fill has 2",
        None,
        "equal counts",
    )
