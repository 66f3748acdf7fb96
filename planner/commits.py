"""Commits and asynchronous calls: where a commit waits for those that are in flight (ADR 0069)."""

from collections.abc import Mapping, Sequence

from ..dsl import operators as ops
from ..dsl.errors import PlanError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain
from .kinds import PLANNER_KINDS
from .settings import Settings


def commits_wait(stage: Sequence[ops.Operator], settings: Settings) -> bool:
    """Whether a commit of a task of this stage waits until no call is in flight."""
    return any(operator.async_call is not None for operator in stage) and (
        settings.guarantee == "exactly_once" or _keeper(stage) is not None
    )


def _keeper(stage: Sequence[ops.Operator]) -> ops.Operator | None:
    """An operator whose state messages change; None if there is none."""
    return next((one for one in stage if PLANNER_KINDS[one].state is not None and one.keeps_state), None)


def check_async_commit(pipeline: Pipeline, stages: Mapping[str, Sequence[str]], settings: Settings) -> None:
    """Refuse `async_commit` where a commit of a stage has to wait for asynchronous calls."""
    for members in stages.values() if settings.async_commit else ():
        stage = [pipeline.operator(id) for id in members]
        if not commits_wait(stage, settings):
            continue
        calling = next(one for one in stage if one.async_call is not None)
        wrong, keeper = f"async_commit=True and {calling.label}", _keeper(stage)
        if settings.guarantee == "exactly_once":
            wrong += ", with guarantee='exactly_once'"
            expected = "at_least_once, for a commit shows outputs of messages that a crash would process again"
            remedy = "leave out one of the two settings"
        else:
            assert keeper is not None
            wrong += f" in one stage with {keeper.label}, which keeps state"
            expected = "calls without state beside them, for what is kept of later messages would be counted again"
            remedy = "write partition_by between the two, or leave out async_commit: commits wait for calls then"
        raise PlanError(explain(wrong, expected, remedy, calling.origin))
