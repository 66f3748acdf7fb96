"""Tables and inputs that come, go and are reset: what is read again, and what is not."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engines.sending import ProducingSystem, stores_of
from engines.targets import contents, write
from fluvial.dsl import Pipeline, PlanError, Table
from fluvial.runtime import reset, run
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in, write_checkpoints
from fluvial.runtime.systems import LogSystem, System
from generators.counters import Counter


def found(message: str, row: object) -> str:
    return f"{message} {row}"


def looking_up(kind: type[str] | type[int] = str) -> Pipeline:
    pipeline = Pipeline("p")
    rows: Table[str, Any] = pipeline.table("rows", key=str, value=kind)
    pipeline.stream("in", key=str, value=str).join(rows, found, id="j", how="left").send_to("out")
    return pipeline


def copying() -> Pipeline:
    """Reads what holds the rows as a stream."""
    pipeline = Pipeline("p")
    pipeline.stream("rows", key=str, value=str).send_to("copy")
    pipeline.stream("in", key=str, value=str).send_to("out")
    return pipeline


def following(*, rows: bool = True) -> Pipeline:
    """Shows the changes of a table that has a stage of its own."""
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).send_to("out")
    if rows:
        pipeline.table("rows", key=str, value=str).changes().send_to("changes")
    return pipeline


def joining(kind: type[str] | type[int] | None = None) -> Pipeline:
    """Looks up what is joined of two tables, with rows of a kind; without a kind nothing is joined of them."""
    pipeline = Pipeline("p")
    left, right = (pipeline.table(name, key=str, value=str) for name in ("left", "right"))
    incoming = pipeline.stream("in", key=str, value=str)
    for table in (left, right):
        incoming.join(table, found, id=f"with-{table.operator.id}", how="left").send_to("other")
    if kind is not None:

        def both(one: str, other: str) -> str:
            return one + other

        def number(one: str, other: str) -> int:
            return int(one + other)

        rows: Table[str, Any] = left.join(right, both if kind is str else number, id="rows")
        incoming.join(rows, found, id="j", how="left").send_to("out")
    return pipeline


def counting(*inputs: str) -> Pipeline:
    pipeline = Pipeline("p")
    first, *others = [pipeline.stream(name, key=str, value=str) for name in inputs]
    keyed = first.merge(*others) if others else first
    keyed.process(Counter(), id="n").send_to("out", value=int)
    return pipeline


@pytest.fixture(params=["log", "sent"])
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    return LogSystem(tmp_path, fsync=False) if request.param == "log" else ProducingSystem()


def put(system: System, stream: str, value: bytes) -> None:
    write(system, {stream: [[(b"k", value, 0, ())]]})


def run_on(system: System, pipeline: Pipeline) -> list[bytes | None]:
    """What a run adds to the output."""
    before = len(contents(system, "out")) if "out" in system.admin().streams() else 0
    with stores_of(system):
        run(pipeline, system=system, until="end")
    return [record[1] for record in contents(system, "out")][before:]


def changes(system: System) -> list[bytes | None]:
    return [record[1] for record in contents(system, "changes")]


@pytest.mark.slow
def test_a_table_that_is_reset_reads_its_rows_again(system: System) -> None:
    put(system, "rows", b"1")
    put(system, "in", b"x")
    assert run_on(system, looking_up()) == [b"x 1"]
    put(system, "in", b"y")
    with pytest.raises(PlanError, match="the stored state of table rows has another meaning"):
        run_on(system, looking_up(int))
    reset(looking_up(int), states=["rows"], system=system)
    assert run_on(system, looking_up(int)) == [b"y 1"]


def test_a_stream_that_becomes_a_table_is_read_from_its_start(system: System) -> None:
    put(system, "rows", b"1")
    put(system, "in", b"x")
    run_on(system, copying())
    put(system, "in", b"y")
    assert run_on(system, looking_up()) == [b"y 1"]
    put(system, "in", b"z")
    run_on(system, copying())
    put(system, "in", b"z")
    assert run_on(system, looking_up()) == [b"z 1"]


def test_a_table_whose_stream_was_read_on_without_it_takes_in_what_it_has_missed(system: System) -> None:
    put(system, "rows", b"1")
    put(system, "in", b"x")
    assert run_on(system, looking_up()) == [b"x 1"]
    put(system, "rows", b"2")
    assert run_on(system, copying()) == []
    assert [record[1] for record in contents(system, "copy")] == [b"2"]
    put(system, "in", b"y")
    assert run_on(system, looking_up()) == [b"y 2"]


def test_a_table_that_is_gone_for_a_run_goes_on_where_it_was(system: System) -> None:
    put(system, "rows", b"1")
    put(system, "in", b"x")
    assert run_on(system, following()) == [b"x"]
    assert changes(system) == [b"1"]
    put(system, "rows", b"2")
    put(system, "in", b"x")
    assert run_on(system, following(rows=False)) == [b"x"]
    assert run_on(system, following()) == []
    assert changes(system) == [b"1", b"2"]


@pytest.mark.slow
def test_a_joined_table_that_is_reset_has_the_rows_of_its_tables_again(system: System) -> None:
    for stream in ("left", "right", "in"):
        put(system, stream, b"1")
    assert run_on(system, joining(str)) == [b"1 11"]
    put(system, "in", b"2")
    with pytest.raises(PlanError, match="the stored state of join rows has another meaning"):
        run_on(system, joining(int))
    reset(joining(int), states=["rows"], system=system)
    assert run_on(system, joining(int)) == [b"2 11"]


def test_a_joined_table_that_is_gone_for_a_run_misses_nothing(system: System) -> None:
    for stream in ("left", "right", "in"):
        put(system, stream, b"1")
    assert run_on(system, joining(str)) == [b"1 11"]
    put(system, "left", b"2")
    write(system, {"right": [[(b"k", None, 0, ()), (b"k", b"3", 0, ())]]})
    assert run_on(system, joining()) == []
    put(system, "in", b"2")
    assert run_on(system, joining(str)) == [b"2 23"]
    write(system, {"right": [[(b"k", None, 0, ())]]})
    assert run_on(system, joining()) == []
    put(system, "in", b"3")
    assert run_on(system, joining(str)) == [b"3 None"]


@pytest.mark.slow
def test_rows_are_not_skipped_for_what_was_read_of_them_under_another_name(system: System) -> None:
    """The task that has read the stream furthest is not the one that keeps the table."""
    for value in (b"1", b"2"):
        put(system, "rows", value)
    put(system, "in", b"x")
    run_on(system, copying())  # its task is called after "rows", and has read all of it
    with stores_of(system):
        run(looking_up(), system=system, until="end")
    reset(looking_up(), states=["rows"], system=system)
    put(system, "rows", b"3")
    put(system, "in", b"y")
    assert run_on(system, looking_up()) == [b"y 3"]


def test_an_input_that_is_gone_for_a_run_goes_on_where_it_was(system: System) -> None:
    for inputs, expected in ((("a", "b"), [1, 2]), (("b",), [3]), (("a", "b"), [4, 5, 6])):
        put(system, "a", b"x")
        put(system, "b", b"x")
        assert run_on(system, counting(*inputs)) == [b"%d" % number for number in expected]


def test_an_operator_that_is_gone_for_a_run_has_its_state_when_it_comes_back(system: System) -> None:
    for pipeline, expected in ((counting("in"), [b"1"]), (copying(), [b"x"]), (counting("in"), [b"2"])):
        put(system, "in", b"x")
        put(system, "rows", b"x")
        assert run_on(system, pipeline) == expected


def test_a_table_goes_on_where_it_was_in_a_checkpoint_that_does_not_tell_of_tables(system: System) -> None:
    put(system, "rows", b"1")
    put(system, "in", b"x")
    run_on(system, following())
    kept = checkpoints_in(system, "p")
    write_checkpoints(system, "p", {task: replace(found, tables=None) for task, found in kept.items()})
    put(system, "rows", b"2")
    run_on(system, following())
    assert changes(system) == [b"1", b"2"]
