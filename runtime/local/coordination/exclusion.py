"""Keeps the containers of a pipeline from running while a reset changes its checkpoints and state."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from msgspec.structs import replace

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ....planner.stream_names import coordinator
from ...process.machine import THIS_MACHINE, Machine
from ...systems.contract import ProducingSystem, System
from .assignments import Assignment, CoordinatorState, Presence
from .coordinator_stream import Coordinator
from .membership import transactional_id

ANSWER_SECONDS = 5.0
"""How long containers have to answer a liveness query. They read the coordinator stream about once a second."""


@contextmanager
def no_containers(
    pipeline: str, system: System, machine: Machine = THIS_MACHINE, *, dry_run: bool = False
) -> Iterator[None]:
    """Let no container of a pipeline run while the context is open.

    On systems with claims the context holds the claims of all containers. On other systems it asks whether a container
    is alive. A container that does not answer, since its process is paused, is fenced before it continues; with
    `dry_run`, after which nothing is changed, it is left alone.

    Raises SystemProblem if a container is alive.
    """
    if system.admin().partitions(coordinator(pipeline)) is None:
        with system.claim(pipeline):
            yield
        return
    coordinator_stream = Coordinator(system, pipeline, machine)
    if isinstance(system, ProducingSystem):
        _refuse_alive(pipeline, system, coordinator_stream, machine)
        if not dry_run:
            _fence_containers(pipeline, system, coordinator_stream, machine)
        yield
        return
    state, _ = coordinator_stream.read()
    containers = 1 if state.assignment is None else state.assignment.containers
    with ExitStack() as stack:
        for name in ("coordinator", *map(str, range(containers))):
            stack.enter_context(system.claim(pipeline, name))
        yield


def begin_anew(pipeline: str, system: System, machine: Machine = THIS_MACHINE) -> None:
    """Let the last run of a pipeline be over, before its checkpoints change within `no_containers`: else containers
    that have done their part of it would end at once when they are started again. To fence containers does it too.

    `no_containers` does not do it by itself, since nothing changes in a dry run, nor where what is asked for is refused
    within it: there the last run goes on being the last one."""
    if isinstance(system, ProducingSystem) or system.admin().partitions(coordinator(pipeline)) is None:
        return
    coordinator_stream = Coordinator(system, pipeline, machine)
    state, _ = coordinator_stream.read()
    if state.assignment is not None:
        coordinator_stream.write_assignment(_run_without_containers(machine.new_id(), state))


def _refuse_alive(pipeline: str, system: System, coordinator_stream: Coordinator, machine: Machine) -> None:
    """Raise SystemProblem if a container answers that it is alive."""
    presence = coordinator_stream.ask(machine.process_name(), ANSWER_SECONDS)
    if presence is not None:
        raise _alive(pipeline, system, presence)


def _fence_containers(
    pipeline: str, system: ProducingSystem, coordinator_stream: Coordinator, machine: Machine
) -> None:
    """Fence the containers that are paused."""
    state, _ = coordinator_stream.read()
    if state.assignment is None:
        return
    run = machine.new_id()
    with coordinator_stream.decided(partial(_run_without_containers, run)) as (assignment, _, _):
        for container in range(assignment.most_containers):
            system.record_producer(transactional_id(pipeline, assignment.began, container)).close()


def _run_without_containers(run: str, state: CoordinatorState) -> Assignment:
    """An assignment with a new run that no container joins."""
    assert state.assignment is not None
    return replace(state.assignment, run=run, until="reset", ends=None)


def _alive(pipeline: str, system: System, presence: Presence) -> SystemProblem:
    wrong = f"container {presence.container} of pipeline {pipeline!r} on {system.url} is alive: {presence.process}"
    remedy = "stop the pipeline, and try again"
    return SystemProblem(explain(wrong, "a pipeline of which no container runs", remedy, at="the coordinator stream"))
