"""Windows in a plan: the panes that they emit, what they keep and show, and accumulators that cannot be kept."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import (
    Pipeline,
    PlanError,
    after,
    after_count,
    aggregate,
    any_of,
    collect,
    count,
    hopping,
    repeat,
    tumbling,
)
from fluvial.planner import Plan, plan

HOUR = timedelta(hours=1)
EARLY = repeat(any_of(after_count(3), after(first=HOUR / 6)))


def made(assigner: Any = tumbling(HOUR), of: Any = count(), **options: Any) -> Plan:  # noqa: B008 - frozen
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=int).window(assigner, of, id="w", **options).send_to("out")
    return plan(pipeline)


def facts(*arguments: Any, **options: Any) -> dict[str, str]:
    return made(*arguments, **options).stores[0].schema.facts


def test_a_window_emits_panes_of_what_its_aggregate_gives() -> None:
    assert (made().operator("w").value, made(of=collect()).operator("w").value) == (
        "Pane[str, int]",
        "Pane[str, list[int | None]]",
    )


def test_late_messages_are_written_as_they_came() -> None:
    assert made().operator("w").writes == ()
    late = made(late_to="late").stream("late")
    assert (late.kind, late.key, late.value) == ("late", "str", "int")


def test_a_window_is_shown_with_its_rules() -> None:
    options = {"trigger": EARLY, "lateness": HOUR, "late_to": "late", "accumulate": False}
    assert made(hopping(HOUR, every=HOUR / 2), **options).operator("w").details == {
        "windows": "hopping 1 h, every 30 min",
        "aggregate": "count",
        "early": "each time after 3 message(s) or 10 min from the first",
        "lateness": "1 h",
        "late_to": "late",
        "panes": "discarding",
    }
    assert made().operator("w").details == {"windows": "tumbling 1 h", "aggregate": "count"}
    assert made(time="processing").operator("w").details["time"] == "processing"


@pytest.mark.parametrize(
    "options",
    [
        {"assigner": tumbling(2 * HOUR)},
        {"accumulate": False},
        {"trigger": EARLY},
        {"late_trigger": EARLY, "lateness": HOUR},
        {"time": "processing"},
        {"of": collect()},
    ],
)
def test_what_is_kept_has_another_meaning_under_other_rules(options: dict[str, Any]) -> None:
    assert facts() != facts(**options)


def test_the_number_of_messages_that_a_trigger_waits_for_may_change() -> None:
    assert facts(trigger=repeat(after_count(3))) == facts(trigger=repeat(after_count(9)))
    assert facts(trigger=repeat(after_count(3))) != facts(trigger=after_count(3))


def untyped() -> None:
    pipeline = Pipeline("p")
    lists = pipeline.stream("in", key=str, value=int).map(lambda number: [number])
    lists.window(tumbling(HOUR), collect(), id="w").send_to("out")
    plan(pipeline)


def ambiguous() -> None:
    made(of=aggregate(list[int], lambda kept, _: kept, type=list[int] | set[int]))


REFUSED: list[tuple[Callable[[], object], str, str]] = [
    (untyped, "window 'w': collect() keeps values whose type is not known", "a type to decode kept values with"),
    (ambiguous, "window 'w': its accumulator cannot be kept", "a type that msgspec can decode"),
]


@pytest.mark.parametrize(("make", "wrong", "expected"), REFUSED, ids=[case[0].__name__ for case in REFUSED])
def test_an_accumulator_that_cannot_be_kept_is_refused(make: Callable[[], object], wrong: str, expected: str) -> None:
    assert_explains(error_of(make, PlanError), wrong, None, expected)
