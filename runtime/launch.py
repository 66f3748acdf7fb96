"""Plans a pipeline, checks the plan, and runs it on an engine."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args

from ..dsl.errors import MissingExtraError, PlanError, UnsupportedError, UsageError
from ..dsl.origin import Origin
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain, require
from ..planner.plan import Plan
from ..planner.planner import plan_on
from ..planner.settings import Settings
from .data_frames.bindings import NO_DATA_FRAMES, DataFrames, check_streams
from .data_frames.connect_server import bounded_calls
from .local.coordination.membership import ContainerId
from .local.grown_plan import plan_with_growth
from .preflight.requirements import check_requirements
from .process.function_server import refuse_while_serving
from .report import OnProgress, Report
from .systems import open_system
from .systems.contract import ProducingSystem, System

if TYPE_CHECKING:
    from .metrics.http import Metrics

EngineName = Literal["local", "spark"]
Until = Literal["stopped", "caught-up", "end"]


class Engine(Protocol):
    """An engine: a function that runs a plan and returns a report."""

    def __call__(
        self, plan: Plan, system: System, settings: Settings, until: Until, progress: OnProgress | None, spark: Any
    ) -> Report:
        """Run the plan to the end, or until the process is asked to stop. `spark` is a session, a URL, or None."""
        ...


_ENGINES: Mapping[str, tuple[str, str]] = {
    "local": ("..local.engine", ""),
    "spark": ("..spark.engine", "pip install 'fluvial[spark]'"),
}


def run_container(
    pipeline: Pipeline,
    engine: EngineName,
    system: str | System,
    settings: Settings | None,
    until: Until,
    progress: OnProgress | None,
    spark: Any,
    container: ContainerId,
    metrics: "Metrics | None" = None,
    partitions: Mapping[str, int] | None = None,
) -> Report:
    """Run a pipeline as the container that `container` names. `partitions` limits how many partitions of a stream
    the run reads, for streams that have got more."""
    return prepared(pipeline, engine, system, settings, until, spark, container, metrics, partitions)(progress)


def prepared(
    pipeline: Pipeline,
    engine: EngineName,
    system: str | System,
    settings: Settings | None,
    until: Until,
    spark: Any,
    container: ContainerId,
    metrics: "Metrics | None" = None,
    partitions: Mapping[str, int] | None = None,
    frames: DataFrames = NO_DATA_FRAMES,
) -> Callable[[OnProgress | None], Report]:
    """Check and plan a run. Returns the function that runs it."""
    refuse_while_serving()
    valid = metrics is None or callable(getattr(metrics, "following", None))
    require(valid, UsageError, f"metrics={metrics!r}", "a Metrics, or None", "open it: with Metrics() as metrics")
    settings = Settings() if settings is None else settings
    check_until(until)
    # A session of the user's, or a DataFrame, shows that all requirements are met.
    if not frames.inputs and (spark is None or isinstance(spark, str)):
        check_requirements(engine)
    run_plan: Callable[..., Report] = _engine(engine).run
    streams = open_system(system)
    if container.containers:
        check_containers(engine, streams, container.containers)
    else:
        check_joining(engine, streams, until, container.number)
    if frames:
        with bounded_calls(frames):
            planned = _plan_with(frames, engine, pipeline, streams, settings)
        run_plan = partial(run_plan, frames=frames)
    else:
        planned = checked_plan(pipeline, streams, settings, partitions, engine)
    # Spark spreads the work by itself, so it has no containers.
    if engine == "local":
        run_plan = partial(run_plan, container_id=container)
    tables = _Tables(planned, streams, settings)

    def run_prepared(progress: OnProgress | None) -> Report:
        following = nullcontext(progress) if metrics is None else metrics.following(planned, settings, progress, tables)
        with bounded_calls(frames), following as on_progress:
            return run_plan(planned, streams, settings, until, on_progress, spark)

    return run_prepared


def check_until(until: object) -> None:
    """Raise UsageError for an `until` that there is not."""
    if until not in get_args(Until):
        remedy = 'write until="stopped", until="caught-up" or until="end"'
        raise UsageError(explain(f"until={until!r}", '"stopped", "caught-up" or "end"', remedy))


def _plan_with(frames: DataFrames, engine: str, pipeline: Pipeline, system: System, settings: Settings) -> Plan:
    """The plan of a run with DataFrames, each of which is one producer."""
    if engine != "spark":
        wrong = f"inputs= and outputs= with engine={engine!r}"
        raise UnsupportedError(explain(wrong, "the engine that has DataFrames", 'write engine="spark"'))
    of_frames = dict.fromkeys([*frames.inputs, *frames.outputs], 1)
    # A batch job, and one of DataFrames alone, needs no system: none is asked.
    alone = plan_on(pipeline, of_frames, settings)
    check_streams(alone, frames)
    if frames.bounded or frames.alone(alone):
        return alone
    existing = system.admin().streams() | of_frames
    planned = plan_on(pipeline, existing, settings)
    _check_sources(planned, existing, system)
    return planned


def check_joining(engine: str, system: System, until: Until, number: int) -> None:
    """Refuse a container that is to join a run by its number alone where tasks cannot be handed over."""
    if engine != "local" or not isinstance(system, ProducingSystem) or until != "stopped":
        wrong = f"container {number} without the number of containers, with engine={engine!r} on {system.url} "
        expected = 'the engine "local" on Kafka, until "stopped": there a container may join those that run'
        remedy = "name the number of containers too: --containers N, or containers=N"
        raise UnsupportedError(explain(f"{wrong}until {until!r}", expected, remedy))


def checked_progress(progress: object) -> None:
    """Raise UsageError for what cannot be called."""
    valid = progress is None or callable(progress)
    require(valid, UsageError, f"progress={progress!r}", "a function that is given a Progress, or None")


@dataclass(frozen=True, slots=True)
class _Tables:
    """The tables of a run, which `Metrics` serves over HTTP."""

    plan: Plan
    system: System
    settings: Settings

    def row(self, table: str, key: str) -> object:
        from .local.observe import state_queries  # noqa: PLC0415 - loads RocksDB, which most runs do without here

        return state_queries.get(self.plan, self.system, self.settings, table, key)

    def rows(self, table: str, limit: int) -> Iterable[object]:
        from .local.observe import state_queries  # noqa: PLC0415 - loads RocksDB, which most runs do without here

        return state_queries.scan(self.plan, self.system, self.settings, table, limit)


def checked_plan(
    pipeline: Pipeline,
    system: System,
    settings: Settings,
    partitions: Mapping[str, int] | None = None,
    engine: EngineName = "local",
) -> Plan:
    """The plan of a pipeline on the streams of a system. `partitions` are those that a run has begun with.

    Raises PlanError for a source whose stream does not exist, or has grown by what tasks with state cannot follow."""
    existing = system.admin().streams()
    planned = engine_plan(pipeline, engine, system, existing, settings, partitions)
    _check_sources(planned, existing, system)
    return planned


def engine_plan(
    pipeline: Pipeline,
    engine: str,
    system: System | None,
    existing: Mapping[str, int],
    settings: Settings,
    partitions: Mapping[str, int] | None = None,
    *,
    refuses: bool = True,
) -> Plan:
    """The plan for an engine on a system whose streams have these partition counts, of which a run has begun with
    `partitions`. Raises PlanError for a source that has grown by what tasks with state cannot follow, if it `refuses`
    that."""
    if engine == "local" and isinstance(system, ProducingSystem):
        return plan_with_growth(pipeline, system, existing, settings, partitions, refuses=refuses)
    # Streams of other systems never grow, and Spark continues with no other number of partitions.
    reads = {name: number for name, number in (partitions or {}).items() if name in existing}
    return plan_on(pipeline, {**existing, **reads}, settings)


def check_containers(engine: str, system: System, containers: int) -> None:
    """Refuse several containers on a system that they cannot share, and on an engine other than the local one."""
    if containers == 1:
        return
    wrong = f"{containers} containers"
    if engine != "local":
        reason = f"the engine 'local': {engine} spreads the work over its own workers"
        raise UnsupportedError(explain(f"{wrong} with engine={engine!r}", reason, "leave out containers"))
    if system.url.startswith("memory:"):
        wrong += " on memory:, which other processes cannot see"
        raise UnsupportedError(explain(wrong, "a system that all of them see", "use log:DIR or kafka://HOST:PORT"))


def refuse_impossible(
    pipeline: Pipeline, engine: str, system: System, settings: Settings, fed: Mapping[str, int | None]
) -> None:
    """Raise an error where a run would before it starts anything, so that a caller may first write to its inputs.
    `fed` are the streams that the caller is about to write, each with the partitions it will have if it is new."""
    existing = system.admin().streams()
    existing = {stream: number or 1 for stream, number in fed.items()} | existing
    planned = engine_plan(pipeline, engine, system, existing, settings)
    _check_sources(planned, existing, system)
    _engine(engine).refuse_impossible(planned, system, settings)


def _engine(name: str) -> Any:
    """The module of an engine, which has `run` and `refuse_impossible`."""
    if name not in _ENGINES:
        raise UsageError(explain(f"engine={name!r}", '"local" or "spark"', 'write engine="local" or engine="spark"'))
    module, remedy = _ENGINES[name]
    try:
        return import_module(module, __name__)
    except ModuleNotFoundError as error:
        if not remedy:
            raise
        wrong = f"engine={name!r} needs {error.name}, which is not installed"
        raise MissingExtraError(explain(wrong, "the extra that brings it", remedy)) from error


def _check_sources(plan: Plan, existing: Mapping[str, int], system: System) -> None:
    for operator in plan.operators:
        if operator.reads is not None and operator.reads not in existing:
            at = Origin(operator.file, operator.line)
            raise PlanError(missing_stream(operator.reads, existing, system, at))


def missing_stream(stream: str, existing: Iterable[str], system: System, at: object) -> str:
    """The message about a stream that is read and does not exist; `at` is where it is named."""
    wrong = f"the stream {stream!r} does not exist in {system.url}; it has {', '.join(existing) or 'none'}"
    remedy = f"correct the name, or write it first: fluvial produce {stream} --system {system.url} FILE"
    return explain(wrong, "a stream that exists", remedy, at)
