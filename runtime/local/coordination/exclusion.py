"""Keeping the containers of a pipeline away while what it keeps is changed by hand."""

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from msgspec.structs import replace

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ....planner.stream_names import coordinator
from ...systems.contract import SendingSystem, System
from .assignments import Assignment, Known, Presence
from .coordinator_stream import Coordinator
from .membership import transactional_ids

ANSWER_SECONDS = 5.0
"""How long containers have to say that they are alive. They look about once a second."""


@contextmanager
def no_containers(pipeline: str, system: System) -> Iterator[None]:
    """Let no container of a pipeline run as long as the context lasts.

    Where containers hold claims, theirs are taken. Elsewhere they are asked, and one that does not answer, since it
    stands still, has lost its place when it goes on.

    Raises SystemProblem where a container is alive.
    """
    if system.admin().partitions(coordinator(pipeline)) is None:
        with system.claim(pipeline):
            yield
        return
    seats = Coordinator(system, pipeline)
    if isinstance(system, SendingSystem):
        _shut_out(pipeline, system, seats)
        yield
        return
    known, _ = seats.read()
    containers = 1 if known.assignment is None else known.assignment.containers
    with ExitStack() as stack:
        for name in ("coordinator", *map(str, range(containers))):
            stack.enter_context(system.claim(pipeline, name))
        yield


def _shut_out(pipeline: str, system: SendingSystem, seats: Coordinator) -> None:
    """Make sure that no container is alive, and that none which stands still goes on."""
    alive = seats.ask(f"process {os.getpid()} on {socket.gethostname()}", ANSWER_SECONDS)
    if alive is not None:
        raise _alive(pipeline, system, alive)
    known, _ = seats.read()
    if known.assignment is None:
        return
    with seats.settled(_nobody) as (assignment, _, _):
        for id in transactional_ids(pipeline, assignment.generation, assignment.containers):
            system.record_producer(id).close()


def _nobody(known: Known) -> Assignment:
    """A run that no container belongs to."""
    assert known.assignment is not None
    return replace(known.assignment, run=uuid.uuid4().hex, until="reset", ends=None)


def _alive(pipeline: str, system: System, alive: Presence) -> SystemProblem:
    wrong = f"container {alive.container} of pipeline {pipeline!r} on {system.url} is alive: {alive.process}"
    remedy = "stop the pipeline, and try again"
    return SystemProblem(explain(wrong, "a pipeline of which no container runs", remedy, at="the coordinator stream"))
