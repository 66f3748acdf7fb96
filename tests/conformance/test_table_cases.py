"""Conformance cases about tables: lookups, side inputs, what is put and deleted, and their part in plans."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engines.conformance import Conformance, check, on_targets
from engines.targets import contents, write
from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PlanError
from fluvial.dsl.message import Record
from fluvial.planner import Settings, plan
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem, MemorySystem, System
from fluvial.runtime.systems.memory import MemoryConsumer
from fluvial.runtime.testing import PipelineDriver


def with_row(message: str, row: str | None) -> str:
    return f"{message}{row}"


def nothing(_: str, __: str | None) -> str | None:
    return None


def join(how: Any, fn: Any = with_row) -> Pipeline:
    pipeline = Pipeline("joined")
    table = pipeline.table("table", key=int, value=str)
    pipeline.stream("in", key=int, value=str).join(table, fn, id="join", how=how).send_to("out", value=str)
    return pipeline


def inner() -> Pipeline:
    return join("inner")


def left() -> Pipeline:
    return join("left")


def to_none() -> Pipeline:
    return join("left", nothing)


def followed() -> Pipeline:
    pipeline = Pipeline("followed")
    pipeline.table("table", key=int, value=str).changes().send_to("out", value=str)
    return pipeline


def rows(*entries: tuple[int | None, str | None]) -> list[Record]:
    """Records of keys and values."""
    return [
        (None if key is None else key.to_bytes(8, "big", signed=True), None if value is None else value.encode(), 0, ())
        for key, value in entries
    ]


def out(*values: bytes | None) -> dict[str, Sequence[Any]]:
    return {"out": values}


ONE = {"table": [rows((1, "r1"))], "in": [rows((1, "m1"), (2, "m2"))]}
MANY = [(number, f"r{number}") for number in range(1000)]
CASES = [
    Conformance("S01-how-decides", inner, ONE, out(b"m1r1"), {}),
    Conformance("S01-left", left, ONE, out(b"m1r1", b"m2None"), {}),
    Conformance("S02-a-result-of-none-is-a-message", to_none, ONE, out(None, None), {}),
    Conformance(
        "T08",
        left,
        {"table": [rows((1, "a"), (None, "b"), (2, "c"), (1, None), (3, "d"), (3, "e"))], "in": [rows(*MANY[:4])]},
        out(b"r0None", b"r1None", b"r2c", b"r3e"),
        {},
    ),
    Conformance(
        "E07-a-table-that-is-longer-than-the-stream",
        inner,
        {"table": [rows(*MANY)], "in": [rows((999, "m"))]},
        out(b"mr999"),
        {},
    ),
    Conformance(
        "changes-of-rows-alone",
        followed,
        {"table": [rows((1, None), (1, "a"), (1, "a"), (2, None), (1, None), (1, None), (None, None), (1, "b"))]},
        out(b"a", b"a", None, b"b"),
        {},
    ),
    Conformance("E07-a-table-without-rows", left, {"table": [[]], "in": [rows((1, "m"))]}, out(b"mNone"), {}),
    Conformance("E07-a-stream-without-messages", left, {"table": [rows((1, "m"))], "in": [[]]}, out(), {}),
]


USUAL = ("E07-a-table-that-is-longer-than-the-stream",)


@pytest.mark.parametrize(("case", "target"), on_targets(CASES, USUAL))
def test_a_case_holds(case: Conformance, target: str, request: pytest.FixtureRequest) -> None:
    check(case, target, request)


def test_s02_the_function_is_called_once() -> None:
    calls: list[str] = []
    with PipelineDriver(join("left", lambda message, _: calls.append(message))) as driver:
        driver.send("in", "m", key=1)
    assert calls == ["m"]


def keyed(pipeline: Pipeline, stream: str) -> Any:
    return pipeline.stream(stream, key=str, value=str)


def test_p08_what_looks_a_table_up_is_as_wide_as_its_stream() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("input1", key=str, value=str)
    moved = keyed(pipeline, "input2").partition_by(str, id="p1", key_type=str)
    moved.join(table, with_row, id="join").send_to("out")
    assert plan(pipeline, partitions={"input1": 64, "input2": 16}).stream("p-p1").partitions == 64


def test_p09_other_counts_are_refused() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("input2", key=str, value=str)
    keyed(pipeline, "input1").join(table, with_row, id="join").send_to("out")
    error = error_of(lambda: plan(pipeline, partitions={"input1": 64, "input2": 16}), PlanError)
    assert_explains(error, "input1 has 64, input2 has 16", None, "equal counts", "partition_by")


def test_p10_a_join_may_fill_its_own_table() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("t", key=str, value=str)
    keyed(pipeline, "in").join(table, with_row, id="join", how="left").send_to(table)
    assert [stage.inputs for stage in plan(pipeline).stages] == [("in",)]


def test_t07_a_table_is_read_from_where_its_store_is_or_from_the_start() -> None:
    with PipelineDriver(left()) as driver:
        driver.send("table", "a", key=1)
        driver.restart()
        driver.send("table", "b", key=2)
        assert driver.report().read == {"table": 1}
        assert driver.state.table("table") == {1: "a", 2: "b"}


class _Few(MemorySystem):
    """Gives few messages at a time, so that inputs would mix."""

    def consumer(self, *, max_records: int = 3) -> MemoryConsumer:
        return super().consumer(max_records=min(max_records, 3))


@pytest.mark.parametrize("lengths", [(20, 3), (3, 20), (0, 9)])
def test_t09_two_tables_come_before_the_stream(lengths: tuple[int, int]) -> None:
    pipeline = Pipeline("p")
    one, two = (pipeline.table(name, key=int, value=str) for name in ("one", "two"))
    stream: Any = pipeline.stream("in", key=int, value=str)
    stream.join(one, with_row, id="a", how="left").join(two, with_row, id="b", how="left").send_to("out", value=str)
    system = _Few()
    tables = {
        name: [rows(*[(1, f"{number}") for number in range(length)])]
        for name, length in zip(("one", "two"), lengths, strict=True)
    }
    write(system, {"in": [rows((1, "m"))], **tables})
    run(pipeline, system=system, until="end")
    last = [str(length - 1) if length else "None" for length in lengths]
    assert [record[1] for record in contents(system, "out")] == [f"m{''.join(last)}".encode()]


def test_t10_a_table_that_is_read_to_its_end_holds_up_nothing() -> None:
    with PipelineDriver(left()) as driver:
        driver.send("table", "a", key=1)
        driver.restart()
        driver.send("in", "m", key=1)
        assert [message.value for message in driver.read("out")] == ["ma"]


@pytest.mark.parametrize("kind", ["memory", "log"])
def test_t10_turns_of_two_messages_with_a_priority_and_a_table(kind: str, tmp_path: Path) -> None:
    system: System = MemorySystem() if kind == "memory" else LogSystem(str(tmp_path / "log"))
    seen = list[str]()

    def note(value: str) -> str:
        seen.append(value)
        return value

    pipeline = Pipeline("p")
    table = pipeline.table("table", key=int, value=str)
    streams = [
        pipeline.stream(name, key=int, value=str, priority=int(name == "urgent")) for name in ("a", "b", "urgent")
    ]
    joined = streams[0].merge(*streams[1:]).join(table, with_row, id="join", how="left")
    joined.map(note).send_to("out", value=str)
    write(system, {name: [rows(*[(1, f"{name}{at}") for at in range(3)])] for name in ("a", "b", "urgent")})
    write(system, {"table": [rows((1, "*"))]})
    run(pipeline, system=system, settings=Settings(turn_messages=2), until="end")
    # The table comes first, then what is urgent, then two messages of each input by turns.
    assert seen == ["urgent0*", "urgent1*", "urgent2*", "a0*", "a1*", "b0*", "b1*", "a2*", "b2*"]
