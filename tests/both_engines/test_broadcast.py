"""`broadcast`: every task of the next stage has every message, on the local engine and in the levels of Spark."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.spark_in_process import BUCKETS, queries
from engines.targets import contents, write
from explained import assert_explains
from fluvial.dsl import Message, Pipeline, PlanError
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.testing import PipelineDriver

Records = list[tuple[str | None, int]]
RECORDS = st.lists(st.tuples(st.none() | st.sampled_from("abc"), st.integers(0, 99)), max_size=8)


def same(message: Message[int]) -> Message[int]:
    return message


def pipeline(on: str = "p") -> Pipeline:
    """Rules that every task has, beside words that each has some of."""
    made = Pipeline(on)
    rules = made.stream("rules", value=int, key=str).filter(bool).broadcast(id="rules")
    made.stream("words", value=int, key=str).merge(rules).map_messages(same).send_to("seen")
    return made


def records(found: Records) -> list[Record]:
    return [(None if key is None else key.encode(), b"%d" % value, value, (("h", b"1"),)) for key, value in found]


def expected(rules: Records, words: Records, copies: int) -> Counter[Record]:
    repeated = [record for record in records(rules) if record[2]] * copies
    return Counter([*repeated, *records(words)])


@given(RECORDS, RECORDS, st.integers(1, 4), st.booleans())
def test_each_task_has_each_message_once(rules: Records, words: Records, partitions: int, crashes: bool) -> None:
    with PipelineDriver(pipeline(), partitions={"words": partitions, "rules": 2}) as driver:
        driver.records.send("rules", records(rules))
        if crashes:
            driver.restart()
        driver.records.send("words", records(words), partition=0)
        driver.end()
        assert Counter(driver.records.read("seen")) == expected(rules, words, partitions)
        assert driver.report().late == {}


@given(RECORDS, RECORDS)
def test_the_levels_of_spark_give_each_bucket_each_message(rules: Records, words: Records) -> None:
    (query,) = queries(plan(pipeline(), partitions={"words": 2}))
    for name, found in (("rules", records(rules)), ("words", records(words))):
        if found:
            query.batch([RecordBatch(name, 0, range(len(found)), found)])
    query.batch([], end=True)
    seen: list[Record] = [tuple(message) for message in query.written.get("seen", [])]  # type: ignore[misc]
    assert Counter(seen) == expected(rules, words, BUCKETS)


def test_messages_of_one_broadcast_stay_in_order(tmp_path: Path) -> None:
    made, system = Pipeline("ordered"), LogSystem(tmp_path, fsync=False)
    made.stream("in", value=int).broadcast(id="all").send_to("out")
    write(system, {"in": [records([(None, value) for value in range(50)])]})
    run(made, system=system, until="end")
    assert [record[2] for record in contents(system, "out")] == [*range(50)]


def test_a_plan_has_a_partition_for_each_task() -> None:
    made = plan(pipeline(), partitions={"words": 7, "rules": 2})
    assert (made.stream("p-rules").partitions, made.stream("p-rules").kind) == (7, "intermediate")
    assert made.operator("rules").role == "terminal"
    assert [(stage.inputs, stage.tasks) for stage in made.stages] == [(("rules",), 2), (("words", "p-rules"), 7)]
    alone = Pipeline("alone")
    alone.stream("in", value=int).broadcast(id="all").send_to("out")
    assert plan(alone, partitions={"in": 5}).stream("alone-all").partitions == 1


def test_what_cannot_be_broadcast_is_explained() -> None:
    with pytest.raises(PlanError) as raised:
        plan(pipeline(), partitions={"words": 7, "p-rules": 3})
    assert_explains(raised.value, "the stream 'p-rules' has 3 partitions, and 7 tasks read it", None, "a partition for")
    made = Pipeline("untyped")
    made.stream("in", value=int).map(lambda value: value + 1).broadcast(id="all").send_to("out")
    with pytest.raises(PlanError) as raised:
        plan(made)
    assert_explains(raised.value, "broadcast 'all': the type of its values is not known", None, "a value type")
