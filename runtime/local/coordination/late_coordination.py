"""The membership of a container that began without a coordinator stream, once somebody has made one."""

from contextlib import ExitStack, closing

from msgspec import UNSET
from msgspec.structs import replace

from ....planner.stream_names import coordinator
from ...process.machine import Machine
from ...systems.contract import System
from .assignments import Assignment, CoordinatorState, Presence
from .coordinator_stream import Coordinator, MembershipMonitor

LateCoordination = tuple[Coordinator, Presence, MembershipMonitor]
"""The coordinator stream, what the container says in it of itself, and what follows it."""


def starting_presence(assignment: Assignment, container: int, machine: Machine, *, sends: bool) -> Presence:
    """The presence of this process as it starts as a container. One that `sends` heartbeats says so."""
    return Presence(
        container=container,
        generation=assignment.generation,
        run=assignment.run,
        incarnation=machine.new_id(),
        state="starting",
        process=machine.process_name(),
        heartbeats=True if sends else UNSET,
    )


def join_late(pipeline: str, system: System, run: str, machine: Machine, stack: ExitStack) -> LateCoordination | None:
    """What announces the one container of a run, if somebody has made a coordinator stream to ask for it.
    None otherwise; `stack` closes it. The container has the claim of the pipeline, so nobody writes an assignment."""
    if system.admin().partitions(coordinator(pipeline)) is None:
        return None
    stream = Coordinator(system, pipeline, machine)
    own = Assignment(generation=0, containers=1, tasks={}, run=run, until="stopped")
    presence = replace(starting_presence(own, 0, machine, sends=False), state="running")
    monitor = stack.enter_context(closing(stream.monitor(0, own, presence, CoordinatorState())))
    return stream, presence, monitor
