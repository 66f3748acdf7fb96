"""Keys that do not suit an operator: none, of several types, or of two types that must meet."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PlanError, count, tumbling
from fluvial.planner.flow import Flow
from fluvial.planner.kinds.checks import check_keyed, check_keys

HOUR = timedelta(hours=1)


def join() -> Any:
    pipeline = Pipeline("p")
    left, right = (pipeline.stream(name, key=str, value=int) for name in ("left", "right"))
    return left.join(right, max, id="join", within=HOUR).operator


def checked(left: Any, right: Any) -> Callable[[], None]:
    operator = join()
    flows = dict(zip(operator.inputs, (Flow(left, int), Flow(right, int)), strict=True))
    return lambda: check_keys(operator, flows, "streams")


def test_keys_of_one_type_may_meet() -> None:
    checked(str, str)()


@pytest.mark.parametrize(
    ("left", "right", "shown"), [(str, int, "str and int"), (None, None, "unknown and unknown"), (str, None, "str and")]
)
def test_keys_that_would_not_meet_are_refused(left: Any, right: Any, shown: str) -> None:
    wrong = f"join 'join' of streams with keys of type {shown}"
    assert_explains(error_of(checked(left, right), PlanError), wrong, None, "keys of one type", ".partition_by(...)")


def test_an_operator_that_needs_a_key_is_refused_without() -> None:
    window = Pipeline("p").stream("in", key=str, value=int).window(tumbling(HOUR), count(), id="n").operator
    check_keyed(window, {"stream-1": Flow(str, int)})
    error = error_of(lambda: check_keyed(window, {"stream-1": Flow(None, int)}), PlanError)
    assert_explains(error, "window 'n' on messages without one key type", None, "a keyed stream", "before .window")
