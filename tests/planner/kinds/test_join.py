"""Joins in a plan: what they emit, keep and show, and rows that cannot be kept."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PlanError
from fluvial.planner import Plan, plan

HOUR = timedelta(hours=1)


def paired(left: Any, right: Any) -> dict[str, int]:
    return {left: right}


def maybe(left: int, right: int) -> int | None:
    return left or right


async def fetch(key: str) -> float | None:
    return float(len(key))


def streams(**options: Any) -> Plan:
    pipeline = Pipeline("p")
    left, right = pipeline.stream("left", key=str, value=str), pipeline.stream("right", key=str, value=int)
    rules: dict[str, Any] = {"id": "join", "within": HOUR, **options}
    left.join(right, paired, **rules).send_to("out")
    return plan(pipeline)


def tables(fn: Callable[[Any, Any], Any] = maybe) -> Plan:
    pipeline = Pipeline("p")
    left, right = (pipeline.table(name, key=str, value=int) for name in ("left", "right"))
    left.join(right, fn, id="join").changes().send_to("out")
    return plan(pipeline)


def remote(hedge: timedelta | None = None) -> Plan:
    pipeline = Pipeline("p")
    rows = pipeline.remote_table("rows", read=fetch, hedge=hedge)
    pipeline.stream("in", key=str, value=str).join(rows, paired, id="join", how="left").send_to("out")
    return plan(pipeline)


def test_joined_streams_emit_what_the_function_returns_under_their_key() -> None:
    operator = streams(how="outer", retain="latest").operator("join")
    assert (operator.key, operator.value) == ("str", "dict[str, int]")
    assert operator.details == {"function": "paired", "how": "outer", "within": "1 h", "retain": "latest"}


def test_joined_streams_keep_the_rows_of_both_sides() -> None:
    (store,) = streams().stores
    assert (store.value, set(store.schema.types)) == ("str and int", {"left", "right"})
    facts = store.schema.facts
    assert (facts["how"], facts["within"], facts["retain"], facts["time"]) == ("inner", "1 h", "all", "event")
    assert (facts["left from"], facts["right from"]) == ("left", "right")


@pytest.mark.parametrize(
    "options", [{"how": "left"}, {"within": 2 * HOUR}, {"retain": "latest"}, {"time": "processing"}]
)
def test_kept_rows_have_another_meaning_under_other_rules(options: dict[str, Any]) -> None:
    assert streams().stores != streams(**options).stores


def test_joined_tables_keep_rows_without_none() -> None:
    made = tables()
    (store,) = [store for store in made.stores if store.operator == "join"]
    assert (made.operator("join").value, store.value) == ("int", "int")
    assert (store.schema.facts["left"], store.schema.facts["right"]) == ("left", "right")


def test_a_lookup_is_shown_with_the_time_of_its_hedge() -> None:
    assert "hedge" not in remote().operator("join").details
    assert remote(hedge=timedelta(seconds=1)).operator("join").details["hedge"] == "1 s"


def test_a_stream_that_looks_up_a_remote_table_keeps_nothing() -> None:
    made = remote()
    assert (made.operator("join").value, made.stores) == ("dict[str, int]", ())
    assert made.operator("join").details["table"] == "rows"
    assert made.operator("join").details["how"] == "left"


def untyped_rows() -> None:
    pipeline = Pipeline("p")
    left, right = (pipeline.stream(name, key=str, value=str) for name in ("left", "right"))
    left.join(right.map(lambda word: [word]), paired, id="join", within=HOUR).send_to("out")
    plan(pipeline)


def ambiguous(left: int, right: int) -> list[int] | set[int]:
    return [left, right]


REFUSED: list[tuple[Callable[[], object], str, str]] = [
    (untyped_rows, "join 'join' keeps right rows whose type is not known", "the last map"),
    (lambda: tables(lambda left, _: left), "join 'join' keeps rows whose type is not known", "its function returns"),
    (lambda: tables(ambiguous), "join 'join' keeps rows that cannot be decoded", "its function returns"),
]


@pytest.mark.parametrize(("make", "wrong", "remedy"), REFUSED, ids=[case[1] for case in REFUSED])
def test_rows_that_cannot_be_kept_are_refused(make: Callable[[], object], wrong: str, remedy: str) -> None:
    assert_explains(error_of(make, PlanError), wrong, None, "a type to decode kept rows with", remedy)
