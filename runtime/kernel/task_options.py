"""What an engine says about a task of a stage, beside its program and its state."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ...planner.task_assignment import StageTasks
from .calls.call_journal import KeptResults
from .calls.pools import pool_of
from .calls.task_calls import Pool
from .output_buffer import HandOver
from .time.input_ends import Accepts


def _every(_: object) -> bool:
    return True


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOptions:
    """Which task of a stage it is, of which run, and how its engine carries it out.

    `producer` is the number of the task in the trailers that it writes, `bucket` the key bucket that it processes where
    the program is split, and `producers` the tasks that write each input.

    `run` is the id of a run to the end of input, which is the same when the run is restarted; its control messages are
    those that it `accepts`. A run that `catches_up` ends without an end of input. With `keeps_at_end` windows that fire
    at an end of input stay for a later run.

    `make_pool` makes the pool of the calls of an operator; `journals` keep the results of calls, by operator.
    `hand_over` takes outputs in the middle of a firing: see `OutputBuffer`. A long firing pauses where the engine is
    `full`, and for its `turns`: see `FiringPauses`. An engine that `takes_requests` heeds the requests of stream tasks.
    """

    producer: int = 0
    bucket: int = 0
    producers: Mapping[str, StageTasks] = field(default_factory=dict)
    run: str = ""
    accepts: Accepts = _every
    catches_up: bool = False
    keeps_at_end: bool = True
    make_pool: Callable[..., Pool] = pool_of
    journals: Mapping[str, KeptResults] = field(default_factory=dict)
    hand_over: HandOver | None = None
    full: Callable[[], bool] = _never
    turns: bool = False
    takes_requests: bool = False


ALONE = TaskOptions()
"""The only task of its stage, without an engine around it."""
