"""The lowering to Spark, judged in process by random pipelines: see `spark_in_process`."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import settings as tries
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the lowering is tested where pyspark is installed")

from cases import Case, cases, judge
from fluvial.dsl import Pipeline, count, skip, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.systems.contract import Batch
from spark_in_process import lowered, queries

TEN = tumbling(timedelta(milliseconds=10))


@tries(max_examples=80)
@given(cases(mode="on_time"), st.integers(1, 40))
def test_any_batching_gives_what_the_oracle_does(case: Case, batch_records: int) -> None:
    judge(case, lambda case: lowered(case, batch_records))


@tries(max_examples=40)
@given(cases(mode="late"))
def test_one_message_a_batch_judges_late_ones_as_the_rulings_do(case: Case) -> None:
    judge(case, lambda case: lowered(case, 1))


def test_time_behind_a_border_does_not_wait_for_sources_that_do_not_lead_there() -> None:
    pipeline = Pipeline("p")
    one, other = pipeline.stream("one", value=int), pipeline.stream("other", value=int)
    one.partition_by(str, id="by-value", key_type=str).window(TEN, count(), id="window").send_to("out")
    one.merge(other).send_to("both")
    (query,) = queries(plan(pipeline, partitions={"one": 1, "other": 3}))
    query.batch([Batch("one", 0, range(3), [(None, b"1", time, ()) for time in (0, 5, 50)])])
    assert [message.timestamp for message in query.written["out"]] == [9]


@pytest.mark.parametrize("bad", [(b"a", b"no number", 99, ()), (b"\xff", b"1", 99, ()), (b"a", b"1", 2**63 - 1, ())])
def test_a_message_that_fails_at_its_source_does_not_move_time(bad: Record) -> None:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=int, key=str).window(TEN, count(), id="window").send_to("out")
    (query,) = queries(plan(pipeline, partitions={"in": 1}))
    query.batch([Batch("in", 0, range(1), [bad])])
    query.batch([Batch("in", 0, range(1, 2), [(b"a", b"1", 5, ())])])
    query.batch([], end=True)
    assert [message.timestamp for message in query.written["out"]] == [9]


def test_messages_are_counted_once_and_time_is_told() -> None:
    pipeline = Pipeline("p")
    lines = pipeline.stream("in", value=int, key=str, out_of_order=timedelta(milliseconds=2))
    lines.window(TEN, count(), id="window").send_to("out")
    lines.partition_by(str, id="by-value", key_type=str).send_to("again")
    pipeline.stream("other", value=int).merge(lines).send_to("both")
    (query,) = queries(plan(pipeline, partitions={"in": 2, "other": 1}))
    ranges = [Batch("in", 0, range(3), [(b"a", b"1", time, ()) for time in (0, 5, 50)])]
    query.batch([*ranges, Batch("other", 0, range(1), [(None, b"1", 7, ())])])
    assert query.tally.counts["read"] == {"in": 3, "other": 1, "p-by-value": 3}
    assert query.tally.counts["written"] == {"p-by-value": 3, "again": 3, "both": 4}
    assert query.tally.watermarks == {"in/0": 48, "other/0": 7}
