"""Windows, compiled: which operator runs, and what becomes of its panes and of late messages."""

from datetime import timedelta
from typing import Any

import pytest

from engines.stages import feed, task_of
from fluvial.dsl import Pipeline, after_count, count, hopping, repeat, session, tumbling, unbounded
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.windows.sessions import SessionOperator
from fluvial.runtime.kernel.windows.triggered import TriggeredWindowOperator
from fluvial.runtime.kernel.windows.triggered_sessions import TriggeredSessionOperator
from fluvial.runtime.kernel.windows.tumbling import TumblingOperator

TEN = timedelta(milliseconds=10)


def task(assigner: Any = tumbling(TEN), **options: Any) -> StageTask:  # noqa: B008 - frozen
    pipeline = Pipeline("p")
    windowed = pipeline.stream("in", key=str, value=int).window(assigner, count(), id="w", **options)
    windowed.map(lambda pane: pane.value).send_to("out", value=int)
    return task_of(pipeline)


def at(*times: int) -> list[Any]:
    return [(b"k", b"1", time, ()) for time in times]


@pytest.mark.parametrize(
    ("assigner", "trigger", "operator"),
    [
        (tumbling(TEN), None, TumblingOperator),
        (tumbling(TEN), after_count(2), TriggeredWindowOperator),
        (hopping(TEN, every=TEN / 2), None, TriggeredWindowOperator),
        (session(TEN), None, SessionOperator),
        (session(TEN), after_count(2), TriggeredSessionOperator),
        (unbounded(), after_count(2), TriggeredWindowOperator),
    ],
)
def test_windows_are_those_of_the_assigner(assigner: Any, trigger: Any, operator: type) -> None:
    assert type(task(assigner, trigger=trigger).stateful["w"]) is operator


def test_a_pane_goes_on_with_the_time_of_its_window() -> None:
    assert feed(task(), "in", *at(0, 3, 10)) == {"send_to-4": [(b"k", b"2", 9, ())]}


def test_a_trigger_emits_at_once() -> None:
    made = feed(task(trigger=repeat(after_count(2))), "in", *at(0, 1, 2))
    assert [record[1] for record in made["send_to-4"]] == [b"2"]


def test_late_messages_are_counted_or_written_as_they_came() -> None:
    counted, written = task(), task(late_to="late")
    feed(counted, "in", *at(20))
    assert feed(counted, "in", *at(5)) == {}
    assert counted.counts.late == {"w": 1}
    feed(written, "in", *at(20))
    assert feed(written, "in", *at(5)) == {"w": [(b"k", b"1", 5, ())]}


def test_a_message_within_lateness_emits_one_more_pane() -> None:
    made = task(lateness=TEN)
    feed(made, "in", *at(1, 12))
    assert feed(made, "in", *at(2)) == {"send_to-4": [(b"k", b"2", 9, ())]}


def test_a_function_behind_a_pane_that_fails_is_the_failure_of_the_pane() -> None:
    pipeline = Pipeline("p")
    panes = pipeline.stream("in", key=str, value=int).window(tumbling(TEN), count(), id="w")
    panes.map(lambda pane: pane.value // 0).send_to("out", value=int)
    with pytest.raises(Exception, match=r"the pane of key 'k', window \[0, 10\)"):
        feed(task_of(pipeline), "in", *at(0, 10))
