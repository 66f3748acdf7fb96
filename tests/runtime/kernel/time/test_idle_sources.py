"""Sources are idle after their patience, and their time goes on with the clock from then on, in steps of it."""

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.stages import feed, task_of
from fluvial.dsl import Pipeline
from fluvial.runtime.kernel.time.idle_sources import newly_idle

LOOKS = st.lists(st.tuples(st.integers(0, 40), st.booleans()), max_size=12)


@given(st.integers(1, 25), LOOKS)
def test_time_goes_on_by_all_the_patience_that_has_passed_since_the_last_message(
    patience: int, looks: Sequence[tuple[int, bool]]
) -> None:
    since: dict[str, int] = {}
    now, quiet_from, given_since = 0, 0, 0
    for number, (step, active) in enumerate(looks):
        now += step
        if number == 0 or active:
            quiet_from, given_since = now, 0
        passed = dict(newly_idle(since, {"in": patience}, {"in"} if active else (), now))
        given_since += passed.get("in", 0)
        assert given_since == (now - quiet_from) // patience * patience


def test_each_has_its_own_patience() -> None:
    since = {"slow": 0, "quick": 0, "late": 15}
    assert dict(newly_idle(since, {"slow": 30, "quick": 10, "late": 10}, (), 20)) == {"quick": 20}
    assert since == {"slow": 0, "quick": 20, "late": 15}


@pytest.mark.parametrize("messages", [False, True])
def test_a_run_between_two_that_catch_up_keeps_since_when_a_source_is_silent(messages: bool) -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int, idle_after=timedelta(milliseconds=100)).send_to("out")
    first = task_of(pipeline, catches_up=True)
    first.set_clock(1000, ())
    feed(first, "in", (None, b"1", 5, ()))
    assert first.position().quiet_since == {"in": 1000}
    between = task_of(pipeline, position=first.position())
    between.set_clock(1060, ())
    if messages:
        feed(between, "in", (None, b"1", 6, ()))
    last = task_of(pipeline, position=between.position(), catches_up=True)
    last.set_clock(1110, ())
    assert last.progress.is_idle("send_to-2") == (not messages)
