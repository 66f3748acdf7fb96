"""Tables on the local engine: loaded before all else, from their start, and kept over crashes."""

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from engines.targets import contents, write
from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem, MemorySystem
from fluvial.runtime.systems.memory import MemoryConsumer
from fluvial.runtime.testing import PipelineDriver


class _Few(MemorySystem):
    """Gives few messages at a time, so that inputs would mix."""

    def consumer(self, *, max_records: int = 3) -> MemoryConsumer:
        return super().consumer(max_records=min(max_records, 3))


def with_row(message: str, row: str | None) -> str:
    return f"{message}{row}"


def first_letter(text: str) -> str:
    return text[0]


def looked_up(*, crosses: bool) -> Pipeline:
    pipeline = Pipeline("p")
    table = pipeline.table("table", key=str, value=str)
    if crosses:
        plain = pipeline.stream("in", value=str)
        stream = plain.partition_by(first_letter, id="by", key_type=str)
    else:
        stream = pipeline.stream("in", key=str, value=str)
    stream.join(table, with_row, id="join", how="left").send_to("out", value=str)
    return pipeline


def record(key: str, value: str) -> Record:
    return key.encode(), value.encode(), 0, ()


def written(system: Any) -> list[bytes]:
    return sorted(found[1] or b"" for found in contents(system, "out"))


@given(st.integers(0, 20), st.integers(1, 20), st.booleans())
def test_the_whole_table_is_there_before_the_first_message(rows: int, messages: int, crosses: bool) -> None:
    system = _Few()
    table = [record("a", str(number)) for number in range(rows)]
    write(system, {"table": [table], "in": [[record("a", "a")] * messages]})
    run(looked_up(crosses=crosses), system=system, until="end")
    last = str(rows - 1) if rows else "None"
    assert written(system) == [f"a{last}".encode()] * messages


def test_a_table_is_read_from_its_start_where_others_begin_at_their_end() -> None:
    system = MemorySystem()
    write(system, {"table": [[record("a", "1")]], "in": [[record("a", "old")]]})
    settings = Settings(offset_default="latest")
    run(looked_up(crosses=False), system=system, until="end", settings=settings)
    assert written(system) == []
    write(system, {"in": [[record("a", "new")]]})
    run(looked_up(crosses=False), system=system, until="end", settings=settings)
    assert written(system) == [b"new1"]


def test_a_later_run_finds_the_rows_in_the_store(tmp_path: Path) -> None:
    system = LogSystem(tmp_path, fsync=False)
    write(system, {"table": [[record("a", "1"), record("b", "2")]], "in": [[]]})
    run(looked_up(crosses=False), system=system, until="end")
    write(system, {"table": [[record("b", "3")]], "in": [[record("a", "m"), record("b", "m")]]})
    report = run(looked_up(crosses=False), system=system, until="end")
    assert (written(system), report.read) == ([b"m1", b"m3"], {"table": 1, "in": 2})


def filling() -> Pipeline:
    """Each message sees the message of its key before it."""
    pipeline = Pipeline("p")
    table = pipeline.table("last", key=str, value=str)
    stream = pipeline.stream("in", key=str, value=str)
    stream.join(table, with_row, id="join", how="left").send_to("out", value=str)
    stream.send_to(table)
    return pipeline


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(("go on", "commit", "crash"))), max_size=30))
def test_what_a_crash_takes_of_a_table_is_sent_again(steps: list[tuple[str, str]]) -> None:
    settings = Settings(guarantee="exactly_once", cached_entries=2)
    seen: dict[str, int] = {}
    wanted: list[bytes] = []
    with PipelineDriver(filling(), partitions=2, commits="timed", settings=settings) as driver:
        for number, (key, then) in enumerate(steps):
            driver.send("in", str(number), key=key)
            wanted.append(f"{number}{seen.get(key)}".encode())
            seen[key] = number
            if then == "commit":
                driver.commit()
            elif then == "crash":
                driver.restart()
        driver.end()
        assert sorted(value or b"" for _, value, _, _ in driver.records.read("out")) == sorted(wanted)
        assert driver.state.table("last") == {key: str(number) for key, number in seen.items()}


def both_sides() -> Pipeline:
    """Messages look the same table up before a border and behind it."""
    pipeline = Pipeline("p")
    table = pipeline.table("table", key=str, value=str)
    before = pipeline.stream("in", key=str, value=str).join(table, with_row, id="before", how="left")
    behind = before.partition_by(first_letter, id="by", key_type=str).join(table, with_row, id="behind", how="left")
    behind.send_to("out", value=str)
    return pipeline


def test_a_table_may_be_looked_up_on_both_sides_of_a_border() -> None:
    system = MemorySystem()
    rows = [record("a", "1"), record("b", "2")]
    write(system, {"table": [rows], "in": [[record("a", "b"), record("b", "a")]]})
    run(both_sides(), system=system, until="end")
    assert written(system) == [b"a21", b"b12"]
