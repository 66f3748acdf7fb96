"""The errors of a store that does not fit its log. Each names the task, the operators, and the command that helps.

`reset` is the command that resets the pipeline, without the options that select what is removed.
"""

from collections.abc import Collection

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ....planner.plan import Plan
from ..checkpoints.checkpoint import Checkpoint


def gone(plan: Plan, reset: str, task: str, operators: Collection[str]) -> SystemProblem:
    """The log has a checkpoint with state that the store lacks."""
    named = ", ".join(sorted(operators))
    wrong = f"the state of task {task} is gone, though the task has a checkpoint: that of {named}"
    remedy = f"bring back the folder of its store, give the run's state_dir, or start over without {named}: "
    return _problem(plan, wrong, "the store that was written with the checkpoint", remedy + _reset(reset, operators))


def foreign(plan: Plan, reset: str, url: str, task: str) -> SystemProblem:
    """The store was written with another log."""
    wrong = f"the store of task {task} was written with another log than {url}"
    remedy = "give each log its own state_dir; if the log was created again, start over: " + _reset(reset)
    return _problem(plan, wrong, "the store that belongs to this log", remedy)


def unknown(plan: Plan, reset: str, url: str, task: str) -> SystemProblem:
    """The store has state, and the log has no checkpoint of the task."""
    wrong = f"the store of task {task} has state, and {url} has no checkpoint of that task"
    remedy = "bring the log back that it was written with, or start over without the store: " + _reset(reset)
    return _problem(plan, wrong, "a store and a log that were kept together", remedy)


def behind(plan: Plan, reset: str, url: str, task: str, own: Checkpoint, committed: Checkpoint) -> SystemProblem:
    """The log has commits that the store lacks."""
    wrong = f"the store of task {task} is older than its checkpoint in {url}{_numbers(own, committed)}"
    wrong += ": it was damaged, or replaced by a copy"
    remedy = "bring the newest store back, or start over without its state: " + _reset(reset, committed.states)
    return _problem(plan, wrong, "the store that was written with the checkpoint", remedy)


def ahead(
    plan: Plan, reset: str, url: str, task: str, own: Checkpoint, committed: Checkpoint | None, why: object = ""
) -> SystemProblem:
    """The store has commits that the log lacks; `why` one of them cannot be published."""
    wrong = f"{url} has lost a commit that the store of task {task} has"
    wrong += f"; its outputs cannot be published: {why}" if why else _numbers(own, committed)
    remedy = "bring back a log and stores that were kept together, or start over without the state of the store: "
    command = _reset(reset, () if committed is None else committed.states)
    return _problem(plan, wrong, "a log that has all commits of its stores", remedy + command)


def _numbers(own: Checkpoint, committed: Checkpoint | None) -> str:
    if not own.number:
        return ""
    return f" (the store is at commit {own.number}, the log at {0 if committed is None else committed.number})"


def _reset(reset: str, operators: Collection[str] = ()) -> str:
    """The command that removes the state of operators, or everything if there are none."""
    words = [f"--state {operator}" for operator in sorted(operators)] or ["--all"]
    return " ".join([reset, *words])


def _problem(plan: Plan, wrong: str, expected: str, remedy: str) -> SystemProblem:
    return SystemProblem(explain(wrong, expected, remedy, plan.pipeline.origin))
