"""Tables in a stage: rows that are put, looked up, joined, followed and taken back."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engines.stages import feed, program_of, task_of
from fluvial.dsl import Pipeline, collect, count, dead_letter, skip, tumbling
from fluvial.dsl.message import Record
from fluvial.runtime.kernel.output_buffer import DEAD_LETTERS
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.testing import PipelineDriver


def row(key: str | None, value: str | None, at: int = 0) -> Record:
    return (None if key is None else key.encode(), None if value is None else value.encode(), at, ())


def shown(value: str | None, found: str | None) -> str:
    return f"{value}:{found}"


def numbered(value: str, found: int) -> str:
    return f"{value}:{found}"


def looked_up(how: Any = "left", **options: Any) -> Pipeline:
    pipeline = Pipeline("p", **options)
    table = pipeline.table("users", key=str, value=str)
    pipeline.stream("in", key=str, value=str).join(table, shown, id="join", how=how).send_to("out", value=str)
    return pipeline


def values(made: dict[str, list[Any]], operator: str = "send_to-5") -> list[Any]:
    return [record[1] for record in made.get(operator, [])]


def test_a_message_sees_the_row_that_is_there_when_it_comes() -> None:
    task = task_of(looked_up())
    found = []
    for stream, record in [
        ("in", row("a", "1")),
        ("users", row("a", "Ada")),
        ("in", row("a", "2")),
        ("users", row("a", "Bob", at=-5)),
        ("in", row("a", "3")),
        ("users", row("a", None)),
        ("in", row("a", "4")),
        ("in", row("b", "5")),
    ]:
        found += values(feed(task, stream, record))
    assert found == [b"1:None", b"2:Ada", b"3:Bob", b"4:None", b"5:None"]


@pytest.mark.parametrize("followed", [False, True])
def test_a_row_that_is_deleted_and_not_there_has_a_key_for_all_that(followed: bool) -> None:
    pipeline = looked_up()
    if followed:
        pipeline = Pipeline("p")
        pipeline.table("users", key=str, value=str).changes().send_to("changes")
    task = task_of(pipeline)
    feed(task, "users", row("nobody", None), row(None, "1"))
    assert task.counts.keyless == {"users": 1}


def test_an_inner_join_leaves_messages_without_row_out_and_counts_them() -> None:
    task = task_of(looked_up("inner"))
    feed(task, "users", row("a", "Ada"))
    assert values(feed(task, "in", row("a", "1"), row("b", "2"), row(None, "3"))) == [b"1:Ada"]
    assert (task.input_counts["join"], task.input_counts["send_to-5"], task.input_counts["users"]) == (3, 1, 1)


def test_key_timestamp_and_headers_are_the_messages_own() -> None:
    task = task_of(looked_up())
    feed(task, "users", (b"a", b"Ada", 99, (("of", b"row"),)))
    made = feed(task, "in", (b"a", b"1", 5, (("of", b"message"),)))
    assert made["send_to-5"] == [(b"a", b"1:Ada", 5, (("of", b"message"),))]


def test_a_row_that_was_looked_up_is_the_functions_own() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("users", key=str, value=list[int])

    def grow(_: str, found: list[int]) -> int:
        found.append(0)
        return len(found)

    pipeline.stream("in", key=str, value=str).join(table, grow, id="join").send_to("out")
    task = task_of(pipeline)
    feed(task, "users", row("a", "[7]"))
    assert values(feed(task, "in", row("a", "1"), row("a", "2"))) == [b"2", b"2"]


def test_rows_are_kept_and_found_again() -> None:
    program, backend = program_of(looked_up()), MemoryStore()
    first = StageTask(program, backend, empty=True)
    feed(first, "users", row("a", "Ada"), row("b", "Bob"), row("b", None))
    backend.write(list(first.state.changes()))
    first.state.mark_committed(0)
    assert values(feed(first, "in", row("a", "1"), row("b", "2"))) == [b"1:Ada", b"2:None"]
    again = StageTask(program, backend)
    assert values(feed(again, "in", row("a", "1"), row("b", "2"))) == [b"1:Ada", b"2:None"]


def test_a_row_that_cannot_be_decoded_is_a_message_that_failed() -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    table = pipeline.table("users", key=str, value=int)
    pipeline.stream("in", key=str, value=str).join(table, numbered, id="join").send_to("out", value=str)
    task = task_of(pipeline)
    made = feed(task, "users", row("a", "1"), row("a", "x"))
    assert [letter[:2] for letter in made[DEAD_LETTERS]] == [(b"a", b"x")]
    assert values(feed(task, "in", row("a", "m"))) == [b"m:1"]


# Tables that the pipeline fills.


def filling(**options: Any) -> Pipeline:
    """Each message sees what the last one of its key left, and leaves itself; `!` fails behind that, `-` deletes."""
    pipeline = Pipeline("p", **options)
    table = pipeline.table("last", key=str, value=str)
    stream = pipeline.stream("in", key=str, value=str)
    stream.join(table, shown, id="join", how="left").map(refuse).send_to("out", value=str)
    stream.map(lambda text: None if text == "-" else text).send_to(table)
    return pipeline


def refuse(text: str) -> str:
    if text.startswith("!"):
        raise ValueError(text)
    return text


def test_a_message_sees_the_table_as_it_was_before_it() -> None:
    task = task_of(filling())
    made = feed(task, "in", row("a", "1"), row("a", "2"), row("b", "3"), row("a", "-"), row("a", "4"))
    assert [value for _, value, _, _ in made["send_to-6"]] == [b"1:None", b"2:1", b"3:None", b"-:2", b"4:None"]
    assert task.input_counts["last"] == 5


def test_what_a_failed_message_sent_is_taken_back() -> None:
    task = task_of(filling(on_error=skip()))
    made = feed(task, "in", row("a", "1"), row("a", "!"), row("a", "2"), row(None, "3"), row(None, "4"))
    assert values(made, "send_to-6") == [b"1:None", b"2:1", b"3:None", b"4:None"]


def test_a_table_may_be_filled_without_being_read() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=int).send_to(pipeline.table("last", key=str, value=int))
    with PipelineDriver(pipeline, partitions=3) as driver:
        for key, value in (("a", 1), ("b", 2), ("a", 3), ("b", None)):
            driver.send("in", value, key=key)
        driver.restart()
        assert driver.state.table("last") == {"a": 3}


def test_a_row_is_sent_once_the_calls_of_its_message_have_come_back() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("last", key=str, value=str)
    stream = pipeline.stream("in", key=str, value=str)

    async def slowly(text: str) -> list[str]:
        await asyncio.sleep(10)
        return [text]

    stream.async_flat_map(slowly, id="slow").join(table, shown, id="join", how="left").send_to("out", value=str)
    stream.send_to(table)
    with PipelineDriver(pipeline) as driver:
        driver.send("in", "1", key="a")
        assert driver.state.table("last") == {}
        driver.advance(timedelta(seconds=10))
        driver.send("in", "2", key="a")
        driver.advance(timedelta(seconds=10))
        assert driver.state.table("last") == {"a": "2"}
        assert [message.value for message in driver.read("out")] == ["1:None", "2:1"]


# Joins of tables, and changes.


def pair(left: str | None, right: str | None) -> str | None:
    if "!" in (left, right):
        raise ValueError("!")
    return None if left == "-" else f"{left}+{right}"


def paired(how: Any, **options: Any) -> Pipeline:
    pipeline = Pipeline("p", **options)
    left, right = (pipeline.table(name, key=str, value=str) for name in ("left", "right"))
    joined = left.join(right, pair, id="pair", how=how)
    joined.changes().send_to("changes")
    pipeline.stream("in", key=str, value=str).join(joined, shown, id="join", how="left").send_to("out")
    return pipeline


STEPS = [("left", "1"), ("right", "x"), ("left", "2"), ("right", None), ("left", None), ("right", "y"), ("right", None)]


@pytest.mark.parametrize(
    ("how", "changes"),
    [
        ("inner", ["1+x", "2+x", None]),
        ("left", ["1+None", "1+x", "2+x", "2+None", None]),
        ("outer", ["1+None", "1+x", "2+x", "2+None", None, "None+y", None]),
    ],
)
def test_each_change_of_a_joined_row_is_emitted(how: str, changes: list[str | None]) -> None:
    with PipelineDriver(paired(how)) as driver:
        for at, (side, value) in enumerate(STEPS):
            driver.send(side, value, key="a", timestamp=at, headers=(("h", b"1"),))
        found = driver.read("changes")
        assert [message.value for message in found] == changes
        assert {message.headers for message in found} == {(("h", b"1"),)}
        assert driver.state.table("pair") == {}


def test_none_from_the_function_deletes_the_joined_row() -> None:
    with PipelineDriver(paired("outer")) as driver:
        for value in ("1", "-"):
            driver.send("left", value, key="a")
        assert [message.value for message in driver.read("changes")] == ["1+None", None]
        assert driver.state.table("pair") == {}


def test_a_joined_row_that_fails_stays_as_it_was() -> None:
    with PipelineDriver(paired("outer", on_error=dead_letter())) as driver:
        for value in ("1", "!"):
            driver.send("left", value, key="a", timestamp=7)
        assert (driver.state.table("left"), driver.state.table("pair")) == ({"a": "!"}, {"a": "1+None"})
        headers = dict(driver.dead_letters[0].headers)
        assert (headers["fluvial-operator"], headers["fluvial-firing"]) == (b"pair", b"left")


def test_streams_look_joined_rows_up_also_after_a_restart() -> None:
    with PipelineDriver(paired("inner")) as driver:
        driver.send("left", "1", key="a")
        driver.send("right", "x", key="a")
        driver.restart()
        driver.send("in", "m", key="a")
        assert [message.value for message in driver.read("out")] == ["m:1+x"]


def test_changes_have_the_time_of_their_stream() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("users", key=str, value=str)
    windows = table.changes().window(tumbling(timedelta(milliseconds=10)), count(), id="w")
    windows.map(lambda pane: pane.value).send_to("counts")
    with PipelineDriver(pipeline) as driver:
        for at in (0, 9, 5, 10):
            driver.send("users", "Ada", key="a", timestamp=at)
        assert [message.value for message in driver.read("counts")] == [3]


def test_a_table_holds_back_no_time_of_what_looks_it_up() -> None:
    pipeline = Pipeline("p")
    table = pipeline.table("users", key=str, value=str)
    joined = pipeline.stream("in", key=str, value=str).join(table, shown, id="join", how="left")
    panes = joined.window(tumbling(timedelta(milliseconds=10)), collect(), id="w")
    panes.map(lambda pane: pane.value).send_to("panes")
    with PipelineDriver(pipeline) as driver:
        driver.send("users", "Ada", key="a", timestamp=3)
        for at in (1, 15):
            driver.send("in", str(at), key="a", timestamp=at)
        assert [message.value for message in driver.read("panes")] == [["1:Ada"]]


@pytest.mark.parametrize(("followed", "heard"), [(False, 15), (True, 3)])
def test_the_time_of_a_table_counts_where_somebody_follows_it(followed: bool, heard: int) -> None:
    pipeline = looked_up()
    table = pipeline.table("more", key=str, value=str)
    pipeline.stream("on", key=str, value=str).join(table, shown, id="more-join").send_to("more-out")
    stage = 1
    if followed:
        table.changes().send_to("changes")
    task = task_of(pipeline, stage)
    feed(task, "more", row("a", "Ada", at=3))
    feed(task, "on", row("a", "1", at=15))
    assert task.inputs.watermark() == heard


def test_tables_that_nobody_follows_cost_no_steps_of_time() -> None:
    pipeline = Pipeline("p")
    left, right = (pipeline.table(name, key=str, value=str) for name in ("left", "right"))
    joined = left.join(right, pair, id="pair")
    pipeline.stream("in", key=str, value=str).join(joined, shown, id="join").send_to("out")
    assert not program_of(pipeline).graph.exact
    joined.changes().send_to("changes")
    assert program_of(pipeline).graph.exact


def test_tables_are_joined_in_the_stage_of_calls() -> None:
    async def call(text: str) -> list[str]:
        return [text]

    pipeline = Pipeline("p")
    left, right = (pipeline.table(name, key=str, value=str) for name in ("left", "right"))
    pairs = left.join(right, pair, id="pair").join(right, pair, id="pairs")
    found = pipeline.stream("in", key=str, value=str).join(pairs, shown, id="join", how="left")
    found.async_flat_map(call, id="call").send_to("out", value=str)
    with PipelineDriver(pipeline) as driver:
        for stream, value in (("left", "1"), ("right", "x"), ("in", "m")):
            driver.send(stream, value, key="a")
        assert [message.value for message in driver.read("out")] == ["m:1+x+x"]
