"""One call that runs a pipeline, on either engine."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, Literal, Protocol

from ..dsl.checks import explain
from ..dsl.errors import MissingExtraError, PlanError, UsageError
from ..dsl.origin import Origin
from ..dsl.pipeline import Pipeline
from ..planner.plan import Plan
from ..planner.planner import plan
from ..planner.settings import Settings
from .needs import require
from .report import OnProgress, Report
from .systems import open_system
from .systems.contract import System

EngineName = Literal["local", "spark"]
Until = Literal["stopped", "end"]


class Engine(Protocol):
    """What an engine is: a function that runs a plan and reports."""

    def __call__(
        self, plan: Plan, system: System, settings: Settings, until: Until, progress: OnProgress | None, spark: Any
    ) -> Report: ...


_ENGINES: Mapping[str, tuple[str, str]] = {
    "local": ("..local.engine", ""),
    "spark": ("..spark.engine", "pip install 'fluvial[spark]'"),
}


def run(
    pipeline: Pipeline,
    *,
    engine: EngineName = "local",
    system: str | System = "log:.fluvial",
    settings: Settings | None = None,
    until: Until = "stopped",
    progress: OnProgress | None = None,
    spark: Any = None,
) -> Report:
    """Run a pipeline until it is stopped (SIGINT, SIGTERM), or until the end that its inputs have now.

    `engine` is "local" or "spark"; `system` is where the streams live: `log:DIR`, `memory:`, or a System. `spark` is a
    SparkSession or a master's URL, for that engine. `progress` is called about once a second.

    Raises a `FluvialError`: `PlanError` or `UnsupportedError` before anything starts, `MessageError` for a message that
    failed under `on_error=fail()`, `SystemProblem` when the system is out of reach, `NoProgressError` after a stall;
    `UsageError` for a wrong argument, `MissingExtraError` for an engine that is not installed.

    >>> streams = open_system("memory:")
    >>> streams.admin().create("words", 1)
    >>> writing = streams.producer().begin()
    >>> writing.append("words", 0, [(None, b"tea", 1_700_000_000_000, ())])  # key, value, timestamp, headers
    >>> writing.commit()
    >>> pipeline = Pipeline("shout")
    >>> pipeline.stream("words", value=str).map(str.upper).send_to("loud")
    >>> run(pipeline, system=streams, until="end").written
    {'loud': 1}
    """
    settings = Settings() if settings is None else settings
    if until not in ("stopped", "end"):
        raise UsageError(explain(f"until={until!r}", '"stopped" or "end"'))
    if spark is None or isinstance(spark, str):  # a session of the user's shows that all is there
        require(engine)
    start = _engine(engine)
    streams = open_system(system)
    existing = streams.admin().streams()
    made = plan(pipeline, partitions=existing, settings=settings)
    _check_sources(made, existing, streams)
    return start(made, streams, settings, until, progress, spark)


def _engine(name: str) -> Callable[..., Report]:
    if name not in _ENGINES:
        raise UsageError(explain(f"engine={name!r}", '"local" or "spark"'))
    module, remedy = _ENGINES[name]
    try:
        found: Callable[..., Report] = import_module(module, __name__).run
    except ModuleNotFoundError as error:
        if not remedy:
            raise
        wrong = f"engine={name!r} needs {error.name}, which is not installed"
        raise MissingExtraError(explain(wrong, "the extra that brings it", remedy)) from error
    return found


def _check_sources(plan: Plan, existing: Mapping[str, int], system: System) -> None:
    for operator in plan.operators:
        if operator.reads is not None and operator.reads not in existing:
            wrong = (
                f"the stream {operator.reads!r} does not exist in {system.url}; it has {', '.join(existing) or 'none'}"
            )
            remedy = f"write it first: fluvial produce {operator.reads} --system {system.url} FILE"
            raise PlanError(explain(wrong, "a stream that exists", remedy, Origin(operator.file, operator.line)))
