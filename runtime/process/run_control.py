"""What another thread holds of a run that goes on in a thread of its own."""

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from .stop_request import StopRequest


@dataclass(slots=True)
class RunControl:
    """The request to stop a run, and the queries that it has started: `StreamingQuery` of Spark's, none on the local
    engine."""

    stop: StopRequest = field(default_factory=StopRequest)
    queries: tuple[Any, ...] = ()


RUN_CONTROL: ContextVar[RunControl | None] = ContextVar("run_control", default=None)
"""The control of the run in this thread; None if the run was not begun by `start`."""
