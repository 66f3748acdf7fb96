"""Triggers: when each fires, in messages and ms, and which are refused."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import PipelineError, after, after_count, any_of, repeat
from fluvial.dsl.windows.triggers import Trigger

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("trigger", "fires"),
    [
        (after_count(3), Trigger(count=3)),
        (after(first=SECOND), Trigger(first=1000)),
        (after(last=SECOND), Trigger(last=1000)),
        (repeat(after_count(3)), Trigger(count=3, repeats=True)),
        (any_of(after_count(3), after(last=SECOND)), Trigger(count=3, last=1000)),
        (any_of(after_count(3), after_count(2), after_count(5)), Trigger(count=2)),
        (repeat(any_of(after(first=2 * SECOND), after(first=SECOND))), Trigger(first=1000, repeats=True)),
        (repeat(repeat(after_count(3))), Trigger(count=3, repeats=True)),
    ],
)
def test_a_trigger_fires_at_the_first_of_what_it_is_given(trigger: Trigger, fires: Trigger) -> None:
    assert trigger == fires


@pytest.mark.parametrize(
    ("make", "wrong", "expected", "remedy"),
    [
        (Trigger, "Trigger() never fires", "a count of messages, or a time", "after_count(100)"),
        (after, "after() got no time", "one of first= and last=", "after(first="),
        (lambda: after(first=SECOND, last=SECOND), "both first= and last=", "one of first= and last=", "any_of(...)"),
        (any_of, "any_of got ()", "triggers, one or more", "any_of(after_count(9), ...)"),
        (lambda: any_of(repeat(after_count(3))), "a trigger that repeats", "fire once", "repeat(any_of(...))"),
    ],
)
def test_a_trigger_that_means_nothing_is_refused(
    make: Callable[[], Any], wrong: str, expected: str, remedy: str
) -> None:
    assert_explains(error_of(make, PipelineError), wrong, None, expected, remedy)


@pytest.mark.parametrize("make", [lambda: after_count(0), lambda: after(first=timedelta(0)), lambda: Trigger(last=0)])
def test_a_trigger_needs_one_message_or_one_ms(make: Callable[[], Trigger]) -> None:
    error_of(make, PipelineError)
