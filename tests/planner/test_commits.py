"""Where a commit waits for asynchronous calls, and what async_commit refuses."""

from datetime import timedelta
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import (
    AsyncCollector,
    AsyncStreamTask,
    Envelope,
    Pipeline,
    PlanError,
    TaskCoordinator,
    ValueState,
    count,
    tumbling,
)
from fluvial.planner import Settings, plan
from fluvial.planner.commits import commits_wait
from fluvial.runtime.preflight.unsupported import limitations

MINUTE = timedelta(minutes=1)


async def asked(value: str) -> list[str]:
    return [value]


class Forgetful(AsyncStreamTask[Any, str, str]):
    """A stream task without state."""

    async def process(
        self, envelope: Envelope[Any, str], collector: AsyncCollector[str], coordinator: TaskCoordinator
    ) -> None:
        """It sends nothing."""


class Counting(Forgetful):
    """A stream task with state."""

    all = ValueState(int, 0)


def calls(pipeline: Pipeline) -> Any:
    return pipeline.stream("in", key=str, value=str).async_flat_map(asked, id="ask")


def alone() -> Pipeline:
    pipeline = Pipeline("p")
    calls(pipeline).send_to("out", value=str)
    return pipeline


def beside_a_window() -> Pipeline:
    pipeline = Pipeline("p")
    calls(pipeline).window(tumbling(MINUTE), count(), id="w").send_to("out")
    return pipeline


def before_a_border() -> Pipeline:
    pipeline = Pipeline("p")
    keyed = calls(pipeline).partition_by(len, id="by", key_type=int, value=str)
    keyed.window(tumbling(MINUTE), count(), id="w").send_to("out")
    return pipeline


def task(kind: type[Forgetful]) -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.task(kind, pipeline.stream("in", value=str), id="x").send_to("out", value=str)
    return pipeline


def without_calls() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).window(tumbling(MINUTE), count(), id="w").send_to("out")
    return pipeline


@pytest.mark.parametrize(
    ("pipeline", "waits"),
    [
        (alone(), False),
        (before_a_border(), False),
        (without_calls(), False),
        (task(Forgetful), False),
        (task(Counting), True),
        (beside_a_window(), True),
    ],
)
def test_a_commit_waits_for_calls_beside_state_alone(pipeline: Pipeline, waits: bool) -> None:
    first = [pipeline.operator(id) for id in plan(pipeline).stages[0].operators]
    assert commits_wait(first, Settings()) == waits
    asks = any(operator.async_call is not None for operator in first)
    assert commits_wait(first, Settings(guarantee="exactly_once")) == asks
    if not waits:
        assert plan(pipeline, settings=Settings(async_commit=True)) == plan(pipeline)


def test_async_commit_is_refused_beside_state() -> None:
    settings = Settings(async_commit=True)
    error = error_of(lambda: plan(beside_a_window(), settings=settings), PlanError)
    wrong = "async_commit=True and async_flat_map ask in one stage with window w, which keeps state"
    assert_explains(error, wrong, calls, "calls without state", "write partition_by", below=1)
    error = error_of(lambda: plan(task(Counting), settings=settings), PlanError)
    assert "async_commit=True and calls of task x in one stage with task x, which keeps state" in str(error)


def test_async_commit_is_refused_under_exactly_once() -> None:
    settings = Settings(async_commit=True, guarantee="exactly_once")
    error = error_of(lambda: plan(alone(), settings=settings), PlanError)
    wrong = "async_commit=True and async_flat_map ask, with guarantee='exactly_once'"
    assert_explains(error, wrong, calls, "at_least_once", "leave out one of the two", below=1)
    one = without_calls()
    assert plan(one, settings=settings) == plan(one)


def test_async_commit_is_refused_on_spark() -> None:
    made = plan(alone(), settings=Settings(async_commit=True))
    (found,) = limitations(made, "spark", "log:x", Settings(async_commit=True))
    assert (found.subject, found.reason[:15]) == ("async_commit=True", "a batch commits")
    assert limitations(made, "spark", "log:x") == limitations(made, "local", "log:x", Settings(async_commit=True)) == []
