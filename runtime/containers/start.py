"""Starts a run with several containers, as children of this process."""

from collections.abc import Callable

from ...dsl.pipeline import Pipeline
from ...dsl.text import plural
from ...planner.settings import Settings
from ...planner.task_assignment import stages_of, tasks_of
from ..launch import Until, checked_plan
from ..local.coordination.membership import begin_run
from ..metrics.http import Address
from ..process.interruptions import interruptions_raised
from ..process.resource_limits import exhaustion_explained
from ..process.signals import stop_signals
from ..process.standard_streams import queued_stderr
from ..process.stop_request import Stopped
from ..report import OnProgress, Report
from ..systems.contract import System
from ..systems.open import opening
from .child_process import ChildConfig
from .supervisor import supervise

# Their growing pauses add up to 53 s, in which a broker may come back.
MOST_RESTARTS = 10


def run_containers(
    pipeline: Pipeline,
    target: str,
    system: System,
    settings: Settings,
    until: Until,
    containers: int,
    *,
    most_restarts: int,
    metrics: Address | None,
    progress: OnProgress | None,
    say: Callable[[str], None],
) -> Report:
    """Begin a run, and run its containers as children of this process.

    Each child loads the target again. It serves metrics at a port of its own: the ports after that of `metrics`, or
    any free ones if that is 0."""
    plan = checked_plan(pipeline, system, settings)
    idle = containers - len(tasks_of(stages_of(plan)))
    if idle > 0:
        say(f"{plural(idle, 'container')} of {containers} will be idle: there are no more tasks")
    try:
        with exhaustion_explained(), stop_signals(), interruptions_raised():
            run = begin_run(plan, system, containers, until)
    except Stopped:
        return Report(pipeline=plan.name, engine="local", seconds=0.0)
    configs = [
        ChildConfig(
            target=target,
            system=opening(system),
            settings=settings,
            until=until,
            container=container,
            containers=containers,
            run=run,
            partitions={stream.name: stream.partitions for stream in plan.streams if stream.kind == "source"},
            metrics=None if metrics is None else _child_address(metrics, container),
        )
        for container in range(containers)
    ]
    with queued_stderr():
        return supervise(pipeline, configs, most_restarts=most_restarts, progress=progress, say=say)


def _child_address(first: Address, container: int) -> Address:
    return first._replace(port=first.port and first.port + container)
