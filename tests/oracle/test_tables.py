"""The oracle's tables: what a message sees of them, and in which order."""

import pytest

from fluvial.dsl import Pipeline, skip
from fluvial.dsl.message import Record
from oracle.interpreter import Inputs, run_oracle


def row(key: str | None, value: str | None) -> Record:
    return None if key is None else key.encode(), None if value is None else value.encode(), 0, ()


def shown(value: str, found: str | None) -> str:
    if value == "!":
        raise ValueError
    return f"{value}:{found}"


def pair(left: str | None, right: str | None) -> str:
    return f"{left}+{right}"


def written(pipeline: Pipeline, inputs: Inputs) -> list[bytes | None]:
    return [message.value for message in run_oracle(pipeline, inputs).get("out", [])]


def test_a_table_is_there_before_the_first_message() -> None:
    pipeline = Pipeline("p")
    stream = pipeline.stream("in", key=str, value=str)
    table = pipeline.table("rows", key=str, value=str)
    stream.join(table, shown, id="join").send_to("out", value=str)
    rows = [row("a", "1"), row("b", "2"), row(None, "3"), row("a", "4"), row("b", None)]
    assert written(pipeline, {"in": [[row("a", "x"), row("b", "y")]], "rows": [rows]}) == [b"x:4"]


def test_a_message_sees_what_those_before_it_have_sent() -> None:
    pipeline = Pipeline("p", on_error=skip())
    table = pipeline.table("last", key=str, value=str)
    stream = pipeline.stream("in", key=str, value=str)
    stream.send_to(table)
    stream.join(table, shown, id="join", how="left").send_to("out", value=str)
    messages = [row("a", "1"), row("a", "!"), row("b", "2"), row("a", "3")]
    assert written(pipeline, {"in": [messages]}) == [b"1:None", b"2:None", b"3:1"]


@pytest.mark.parametrize(
    ("how", "seen"),
    [("inner", [b"m:1+2"]), ("left", [b"m:1+2", b"m:3+None"]), ("outer", [b"m:1+2", b"m:3+None", b"m:None+4"])],
)
def test_joined_rows_are_as_both_tables_are(how: str, seen: list[bytes]) -> None:
    pipeline = Pipeline("p")
    left, right = (pipeline.table(name, key=str, value=str) for name in ("left", "right"))
    joined = left.join(right, pair, id="pair", how=how)  # type: ignore[call-overload]
    pipeline.stream("in", key=str, value=str).join(joined, shown, id="join").send_to("out", value=str)
    rows = {"left": [[row("a", "1"), row("b", "3")]], "right": [[row("a", "2"), row("c", "4")]]}
    assert written(pipeline, {**rows, "in": [[row(key, "m") for key in "abcd"]]}) == seen


def test_changes_are_emitted_one_by_one() -> None:
    pipeline = Pipeline("p")
    pipeline.table("rows", key=str, value=str).changes().send_to("out", value=str)
    assert written(pipeline, {"rows": [[row("a", "1"), row(None, "2"), row("a", None)]]}) == [b"1", None]
