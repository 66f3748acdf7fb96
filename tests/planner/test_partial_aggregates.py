"""At which borders messages are aggregated, and that plans show it."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from fluvial.dsl import (
    KeyedStream,
    Pipeline,
    PipelineError,
    after_count,
    collect,
    count,
    hopping,
    session,
    tumbling,
    unbounded,
)
from fluvial.planner import plan

SECOND = timedelta(seconds=1)
Behind = Callable[[KeyedStream[str, str]], Any]


def shown(behind: Behind) -> str | None:
    pipeline = Pipeline("p")
    behind(pipeline.stream("in", value=str).partition_by(str.lower, id="by", key_type=str))
    return plan(pipeline).operator("by").details.get("combines for")


def counted(assigner: Any = None, made: Any = None, **options: Any) -> Behind:
    def behind(keyed: KeyedStream[str, str]) -> None:
        keyed.window(assigner or tumbling(SECOND), made or count(), id="w", **options).send_to("out")

    return behind


def twice(keyed: KeyedStream[str, str]) -> None:
    counted()(keyed)
    keyed.window(tumbling(SECOND), count(), id="other").send_to("others")


def and_sent(keyed: KeyedStream[str, str]) -> None:
    counted()(keyed)
    keyed.send_to("words")


def mapped(keyed: KeyedStream[str, str]) -> None:
    counted()(keyed.map(str.lower))


@pytest.mark.parametrize("behind", [counted(), counted(hopping(SECOND * 5, every=SECOND)), counted(accumulate=False)])
def test_messages_are_aggregated_for_a_window_that_counts(behind: Behind) -> None:
    assert shown(behind) == "w"


@pytest.mark.parametrize(
    "behind",
    [
        counted(combine=False),
        counted(session(SECOND)),
        counted(unbounded()),
        counted(made=collect()),
        counted(trigger=after_count(5)),
        counted(lateness=SECOND),
        counted(late_to="late"),
        counted(time="processing"),
        twice,
        and_sent,
        mapped,
    ],
)
def test_others_are_sent_alone(behind: Behind) -> None:
    assert shown(behind) is None


def test_what_is_broadcast_is_sent_alone() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).broadcast(id="all").send_to("out")
    assert "combines for" not in plan(pipeline).operator("all").details


def test_combine_is_true_or_false() -> None:
    with pytest.raises(PipelineError, match="combine"):
        shown(counted(combine="yes"))
