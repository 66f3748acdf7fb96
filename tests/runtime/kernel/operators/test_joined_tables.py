"""Joined tables that are made anew, on the local engine and in Spark's buckets: whatever was missed, they have the rows
that their two tables have."""

from datetime import timedelta

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engines.spark_in_process import queries
from engines.stages import feed, program_of
from engines.targets import PATIENT
from fluvial.dsl import Pipeline, skip
from fluvial.planner import Settings, plan
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.testing import PipelineDriver
from generators.changing import changed, restart_with
from generators.how_many import examples

KEYS = "abc"


def both(left: str | None, right: str | None) -> str | None:
    return None if left == right else f"{left}{right}"


def wider(row: str | None, more: str | None) -> str:
    return f"<{row}{more}>"


def pipeline(*, joined: bool = True, followed: bool = True, how: str = "outer") -> Pipeline:
    """Two tables, and if `joined` what is joined of them, and of that again."""
    made = Pipeline("p", on_error=skip())
    left, right = (made.table(name, key=str, value=str) for name in ("left", "right"))
    looked_up = made.stream("in", key=str, value=str).join(left, wider, id="l", how="left")
    looked_up.join(right, wider, id="r", how="left").send_to("other")
    if joined:
        rows = left.join(right, both, id="rows", how=how)  # type: ignore[call-overload]
        more = rows.join(right, wider, id="more", how="left")
        made.stream("in2", key=str, value=str).join(more, wider, id="m", how="left").send_to("out")
        if followed:
            more.changes().send_to("changes")
    return made


def expected(left: dict[str, str], right: dict[str, str]) -> dict[str, str]:
    rows = {key: both(left.get(key), right.get(key)) for key in left.keys() | right.keys()}
    return {key: wider(row, right.get(key)) for key, row in rows.items() if row is not None}


WRITES = st.lists(
    st.tuples(st.sampled_from(["left", "right"]), st.sampled_from(KEYS), st.sampled_from(["x", "y", None])), max_size=6
)


@settings(max_examples=examples(40), suppress_health_check=PATIENT, deadline=None)
@given(st.lists(st.tuples(st.booleans(), WRITES), max_size=4), st.sampled_from([1, 100]))
@example([(False, [("left", "a", "x")])], 100)
@example([(True, [("left", "a", "x")]), (False, [("left", "a", None)])], 100)
def test_a_joined_table_has_the_rows_of_its_tables_after_runs_without_it(
    runs: list[tuple[bool, list[tuple[str, str, str | None]]]], cached: int
) -> None:
    tables: dict[str, dict[str, str]] = {"left": {}, "right": {}}
    with PipelineDriver(pipeline(joined=False), settings=Settings(cached_entries=cached)) as driver:
        for joined, writes in (*runs, (True, [])):
            driver.commit()
            restart_with(driver, pipeline(joined=joined))
            for table, key, value in writes:
                driver.send(table, value, key=key)
                tables[table].pop(key, None)
                if value is not None:
                    tables[table][key] = value
        driver.advance(timedelta(0))
        assert driver.state.table("more") == expected(**tables)


@settings(max_examples=examples(20), suppress_health_check=PATIENT, deadline=None)
@given(st.lists(st.tuples(st.booleans(), WRITES), max_size=4))
@example([(False, [("left", "a", "x")])])
@example([(True, [("left", "a", "x")]), (False, [("left", "a", None)])])
def test_a_joined_table_on_spark_has_the_rows_of_its_tables_after_runs_without_it(
    runs: list[tuple[bool, list[tuple[str, str, str | None]]]],
) -> None:
    tables: dict[str, dict[str, str]] = {"left": {}, "right": {}}
    (query,) = queries(plan(pipeline(joined=False)))
    offset = 0
    for joined, writes in runs:
        query = changed(query, pipeline(joined=joined))
        for table, key, value in writes:
            record = (key.encode(), None if value is None else value.encode(), 0, ())
            query.batch([RecordBatch(table, 0, [offset], [record])])
            offset += 1
            tables[table].pop(key, None)
            if value is not None:
                tables[table][key] = value
    query = changed(query, pipeline())
    query.written.clear()
    query.batch([RecordBatch("in2", 0, [number], [(key.encode(), b"", 0, ())]) for number, key in enumerate(KEYS)])
    found = {message.key: message.value for message in query.written["out"]}
    rows = expected(**tables)
    assert found == {key.encode(): wider("", rows.get(key)).encode() for key in KEYS}


def rows_of(task: StageTask) -> dict[str, str]:
    return {key.decode(): row for key, row in task.stateful["more"].rows()}  # type: ignore[attr-defined]


def kept(task: StageTask, store: MemoryStore) -> Position:
    position = task.position()
    store.write(list(task.state.changes()))
    task.state.mark_committed(0)
    return position


def test_a_rebuilding_that_is_cut_off_begins_again() -> None:
    without, program, store = program_of(pipeline(joined=False)), program_of(pipeline()), MemoryStore()
    task = StageTask(without, store)
    for number in range(10):
        feed(task, "left", (b"%d" % number, b"x", 0, ()))
    position = kept(task, store)
    cut_off = StageTask(program, store, position=position)
    assert cut_off.rebuild(4)
    position = kept(cut_off, store)
    assert position.built == {}
    again = StageTask(program, store, position=position)
    while again.rebuild(4):
        position = kept(again, store)  # so that no more than a piece is in memory
        assert again.state.changed == 0
    assert rows_of(again) == {str(number): "<xNoneNone>" for number in range(10)}
    assert StageTask(program, store, position=kept(again, store)).joined.stale == []


def test_a_row_that_fails_is_left_out_and_counted() -> None:
    def refuse(left: str | None, right: str | None) -> str:
        raise ValueError(left, right)

    def build(*, joined: bool) -> Pipeline:
        made = Pipeline("p", on_error=skip())
        left, right = (made.table(name, key=str, value=str) for name in ("left", "right"))
        found = left.join(right, refuse, id="rows", how="left") if joined else left
        made.stream("in", key=str, value=str).join(found, wider, id="l", how="left").send_to("out")
        right.changes().send_to("changes")
        return made

    store = MemoryStore()
    task = StageTask(program_of(build(joined=False)), store)
    feed(task, "left", (b"a", b"x", 0, ()))
    position = kept(task, store)
    task = StageTask(program_of(build(joined=True)), store, position=position)
    assert not task.rebuild(100)
    assert task.failures.counts == {"rows": 1}


@pytest.mark.parametrize("followed", [False, True])
def test_who_follows_a_joined_table_is_told_of_no_row_that_is_made_anew(followed: bool) -> None:
    with PipelineDriver(pipeline(joined=False)) as driver:
        driver.send("left", "x", key="a")
        driver.commit()
        restart_with(driver, pipeline(followed=followed))
        driver.advance(timedelta(0))
        assert driver.state.table("more") == {"a": "<xNoneNone>"}
        driver.send("left", "y", key="a")
        if followed:
            assert [message.value for message in driver.read("changes")] == ["<yNoneNone>"]
