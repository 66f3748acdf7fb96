"""Starts a run with several containers: as children of this process, or on a cluster."""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

from msgspec.structs import replace

from ...dsl.errors import UnsupportedError, UsageError
from ...dsl.pipeline import Pipeline
from ...dsl.text import plural
from ...dsl.validation import explain, require
from ...planner.plan import Plan
from ...planner.settings import Settings
from ...planner.task_assignment import stages_of, tasks_of
from ..autosize.autosize_options import Autosize
from ..kernel.calls.cancellation import refuse_running_loop
from ..launch import Until, check_until, checked_plan, refuse_impossible
from ..local.checkpoints.rescaled import with_elasticity
from ..local.coordination.membership import begin_run
from ..local.engine import change_elasticity
from ..metrics.http import Address
from ..preflight.requirements import check_requirements
from ..process.interruptions import interruptions_raised
from ..process.resource_limits import exhaustion_explained
from ..process.signals import stop_signals
from ..process.standard_streams import queued_stderr
from ..process.stop_request import Stopped
from ..report import OnProgress, Report
from ..systems import open_system
from ..systems.contract import ProducingSystem, System
from ..systems.open import Opening, opening
from .autosizing import Autosizing, first_size, shared_processors, whole_stages
from .child_process import ChildConfig
from .running_child import Say, Starting
from .supervisor import supervise

# Their growing pauses add up to 53 s, in which a broker may come back.
MOST_RESTARTS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisedContainers:
    """How many containers a run has, where they run, and how often each is started again after it has died.

    They run on `hosts`, which are open as long as the run; by default as children of this process. With `autosize` the
    run changes its size by itself, and begins with that of the last run. Each container serves metrics at a port of its
    own: the ports after that of `metrics`, or any free ones if that is 0.
    """

    number: int
    most_restarts: int = MOST_RESTARTS
    hosts: AbstractContextManager[Starting] | None = None
    autosize: Autosize | None = None
    metrics: Address | None = None


def run_containers(
    pipeline: Pipeline,
    target: str,
    system: System,
    settings: Settings,
    until: Until,
    containers: SupervisedContainers,
    *,
    progress: OnProgress | None,
    say: Say,
) -> Report:
    """Begin a run, and supervise its containers until it has ended. One that is a child of this process loads the
    target again."""
    hosts, autosize = containers.hosts, containers.autosize
    access, start = opening(system), _Start(checked_plan(pipeline, system, settings), settings, containers.number)
    if autosize is not None:
        start = start.sized(system, autosize)
    plan, number = start.plan, start.containers
    idle = number - len(tasks_of(stages_of(plan)))
    if idle > 0:
        say(f"{plural(idle, 'container')} of {number} will be idle: there are no more tasks")
    change_elasticity(plan, system, start.settings, until)
    with ExitStack() as stack:
        try:
            with exhaustion_explained(), stop_signals(), interruptions_raised():
                # Before the run begins: hosts that cannot be used leave an earlier run alone.
                starting = None if hosts is None else stack.enter_context(hosts)
                run = begin_run(plan, system, number, until)
        except Stopped:
            return Report(pipeline=plan.name, engine="local", seconds=0.0)
        first = start.config(target, access, until, run, measured=autosize is not None)
        autosizing = None
        if autosize is not None:
            processors = shared_processors(elsewhere=hosts is not None)
            autosizing = Autosizing(plan, system, run, autosize, say, whole=start.whole, processors=processors)
        with queued_stderr():
            return supervise(
                pipeline,
                number,
                partial(_of_container, first, containers.metrics),
                most_restarts=containers.most_restarts,
                progress=progress,
                say=say,
                starting=starting,
                autosizing=autosizing,
            )


@dataclass(frozen=True, slots=True)
class _Start:
    """What a run begins with. The stages that are `whole` stay so, whatever the load."""

    plan: Plan
    settings: Settings
    containers: int
    whole: frozenset[str] = frozenset()

    def sized(self, system: System, autosize: Autosize) -> "_Start":
        """The same with the size that the run has by its load, which is that of the last run at first."""
        whole, size = whole_stages(self.plan, self.settings), first_size(self.plan, system, autosize)
        elasticity = {stage: 1 if stage in whole else factor for stage, factor in size.elasticity.items()}
        settings = replace(self.settings, elasticity=elasticity)
        return _Start(with_elasticity(self.plan, elasticity), settings, size.containers, whole)

    def config(self, target: str, system: Opening, until: Until, run: str, *, measured: bool) -> ChildConfig:
        """The configuration of the first container."""
        return ChildConfig(
            target=target,
            system=system,
            settings=self.settings,
            until=until,
            container=0,
            containers=self.containers,
            run=run,
            partitions={stream.name: stream.partitions for stream in self.plan.streams if stream.kind == "source"},
            metrics=None,
            measured=measured,
        )


def _of_container(first: ChildConfig, metrics: Address | None, number: int) -> ChildConfig:
    address = None if metrics is None else _child_address(metrics, number)
    return replace(first, container=number, metrics=address)


@dataclass(frozen=True, slots=True)
class HostsArguments:
    """The arguments of `run` and `start` that say how containers run on `hosts`, as a user has given them."""

    engine: str
    until: Until
    spark: object
    metrics: object
    hosts: Any
    containers: int | None
    frames: bool = False
    autosize: Autosize | None = None

    def checked(self) -> int:
        """The number of containers at first. Raises UsageError for arguments that do not go together."""
        containers = self._containers()
        check_until(self.until)
        if self.frames:
            wrong = "inputs= or outputs= beside hosts=: DataFrames are for the engine 'spark'"
            raise UsageError(explain(wrong, "one of the two", "leave out hosts=, or the DataFrames"))
        if self.spark is not None:
            wrong = "spark= beside hosts=: the one is for the engine 'spark', the other for containers of 'local'"
            raise UsageError(explain(wrong, "one of the two", "leave out spark="))
        if self.metrics is not None:
            wrong = "metrics= beside hosts=: what is measured is measured in the containers"
            remedy = (
                "use fluvial run --on URL --metrics-port N --metrics-host 0.0.0.0, with which each container serves it"
            )
            raise UsageError(explain(wrong, "metrics= for a run in this process", remedy))
        return containers

    def _containers(self) -> int:
        if isinstance(self.autosize, Autosize):
            wrong = f"containers={self.containers!r} beside autosize=, which has the least and the most"
            require(self.containers is None, UsageError, wrong, "one of the two", "leave out containers=")
            return self.autosize.containers[0]
        if self.containers is None:
            remedy = "pass containers=N: each takes a core, and more than there are tasks are idle"
            raise UsageError(explain("hosts= without containers=", "the number of containers too", remedy))
        valid, wrong = type(self.containers) is int and self.containers >= 1, f"containers={self.containers!r}"
        require(valid, UsageError, wrong, "a number of containers, 1 or more", "write containers=4")
        return self.containers


def prepared_on_hosts(
    pipeline: Pipeline, system: str | System, settings: Settings | None, asked: HostsArguments
) -> Callable[[OnProgress | None], Report]:
    """Check a run whose containers are to run on a cluster. Returns the function that runs it."""
    containers, settings = asked.checked(), Settings() if settings is None else settings
    streams = open_system(system)
    check_autosize(asked.engine, streams, asked.until, asked.autosize)
    refuse_on_cluster(asked.engine, streams, f"hosts={asked.hosts!r}")
    refuse_impossible(pipeline, "local", streams, settings, {})
    hosts = on_spark(asked.hosts, pipeline, settings, say_on_stderr, "hosts")

    def run_prepared(progress: OnProgress | None) -> Report:
        refuse_running_loop("run()")
        return run_containers(  # pragma: no cover - on Spark
            pipeline,
            "",
            streams,
            settings,
            asked.until,
            SupervisedContainers(number=containers, hosts=hosts, autosize=asked.autosize),
            progress=progress,
            say=say_on_stderr,
        )

    return run_prepared


def on_spark(
    spark: Any, pipeline: Pipeline, settings: Settings, say: Say, argument: str
) -> AbstractContextManager[Starting]:
    """Hosts for containers: a cluster of Spark's, of a session or the URL of a master that the user has given as
    `argument`. Raises an error for what is no such thing, and for a standalone master that does not answer."""
    check_requirements("spark", at=argument)
    # An extra: most containers run without Spark.
    from ..spark.query.master import check_reachable  # noqa: PLC0415
    from ..spark.query.session import check_session  # noqa: PLC0415
    from .spark_hosts import spark_hosts  # noqa: PLC0415

    check_session(spark, argument)
    check_reachable(spark)
    return spark_hosts(spark, argument, pipeline, settings, say)


def refuse_without_hosts(autosize: object) -> None:
    """Refuse `autosize=` for a run in this process."""
    if autosize is not None:
        wrong, expected = f"autosize={autosize!r} without hosts=", "a cluster that the containers run on"
        raise UsageError(explain(wrong, expected, "pass hosts=, or use fluvial run --autosize"))


def check_autosize(engine: str, system: System, until: Until, autosize: object) -> None:
    """Refuse a run that is to change its size where it cannot."""
    if autosize is None:
        return
    valid, wrong = isinstance(autosize, Autosize), f"autosize={autosize!r}"
    require(valid, UsageError, wrong, "an Autosize, or None", "write autosize=Autosize(containers=(1, 8))")
    if engine != "local" or not isinstance(system, ProducingSystem) or until != "stopped":
        wrong = f"a run with engine={engine!r} on {system.url} until {until!r} cannot change its size while it goes on"
        expected = 'a run of the engine "local" on Kafka until it is "stopped"'
        remedy = "leave out --autosize, or autosize=, and name the number of containers"
        raise UnsupportedError(explain(wrong, expected, remedy))


def say_on_stderr(line: str) -> None:
    """Print a line on standard error."""
    sys.stderr.write(f"{line}\n")


def refuse_on_cluster(engine: str, system: System, at: str) -> None:
    """Refuse what containers on a cluster cannot use. `at` is how the user has named the cluster."""
    if engine != "local":
        reason = f"the engine 'local': {engine} spreads the work over its own workers"
        raise UnsupportedError(explain(f"{at} with engine={engine!r}", reason, f"leave out {at.partition(' ')[0]}"))
    if system.url.startswith("memory:"):
        wrong = f"{at} on memory:, which other processes cannot see"
        raise UnsupportedError(explain(wrong, "a system that all of them see", "use kafka://HOST:PORT or log:DIR"))


def _child_address(first: Address, container: int) -> Address:
    return first._replace(port=first.port and first.port + container)
