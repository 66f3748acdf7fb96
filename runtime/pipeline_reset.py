"""`reset`: removes the checkpoints and state of a pipeline, on either engine."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from importlib import import_module
from typing import cast

from ..dsl.errors import UnsupportedError, UsageError
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain, flag
from ..dsl.verb_calls import explained_call
from ..planner.plan import Plan
from ..planner.planner import plan_on
from ..planner.settings import Settings
from .launch import EngineName
from .local.grown_plan import plan_with_growth
from .preflight.requirements import check_requirements
from .reset_step import ResetStep
from .systems import LogSystem, open_system
from .systems.contract import System

ResetSteps = Callable[[Plan, System, Settings, Sequence[str] | None], AbstractContextManager[list[ResetStep]]]
"""A context manager of an engine: it yields the steps of a reset, and the pipeline cannot run while it is open."""


@partial(explained_call, error=UsageError)
def reset(
    pipeline: Pipeline,
    *,
    states: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    keep_offsets: bool = False,
    engine: EngineName = "local",
    system: str | System = "log:.fluvial",
    settings: Settings | None = None,
    dry_run: bool = False,
) -> list[ResetStep]:
    """Remove the state of operators, or the offsets of inputs; without `states` and `inputs` all checkpoints and state.

    `states` are ids of operators. Their state is empty in the next run, which continues at the offsets of the inputs.
    `inputs` are topics of Kafka. The next run reads them from where `Settings.offset_default` says, with the present
    state and watermarks. With `keep_offsets` it reads them from the present offsets: for topics that were deleted and
    created again with the same messages.
    Without either, checkpoints, stores, changelogs and intermediate streams are removed. Outputs, dead letters and
    inputs stay, and the next run reads its inputs from their start. With `dry_run` nothing is removed. `engine`,
    `system` and `settings` are those of the run. Stores on other machines may stay: on Kafka a run restores them.

    Returns the steps. Raises SystemProblem while the pipeline runs; UsageError for an operator without state, a stream
    that is not read, or a log that does not exist; UnsupportedError in memory, and for `inputs` on another system than
    Kafka or another engine than "local".

    >>> from tempfile import mkdtemp
    >>> from fluvial.runtime import run
    >>> streams = open_system("log:" + mkdtemp())
    >>> streams.admin().create("clicks", 1)
    >>> pipeline = Pipeline("busy")
    >>> clicks = pipeline.stream("clicks", key=str, value=str)
    >>> clicks.window(tumbling(timedelta(minutes=1)), count(), id="per-minute").send_to("busy")
    >>> report = run(pipeline, system=streams, until="end")
    >>> [step.kind for step in reset(pipeline, system=streams)]
    ['store', 'checkpoint']
    """
    _check_arguments(states, inputs, keep_offsets=keep_offsets, dry_run=dry_run)
    streams = _existing_system(system)
    settings = Settings() if settings is None else settings
    check_requirements(engine)
    existing = streams.admin().streams()
    if engine == "local":
        # What cannot go on with the partitions that there are may be reset all the same.
        planned = plan_with_growth(pipeline, streams, existing, settings, reads={})
    else:
        planned = plan_on(pipeline, existing, settings)
    with _steps(engine, inputs, keep_offsets)(planned, streams, settings, states) as steps:
        for step in [] if dry_run else steps:
            step.remove()
        return steps


def _existing_system(system: str | System) -> System:
    """The system of the run. A log must exist, for a reset would make an empty one."""
    streams = open_system(system)
    if isinstance(streams, LogSystem) and not streams.directory.is_dir():
        remedy = "name it: --system log:DIR, from Python system='log:DIR'"
        raise UsageError(explain(f"there is no log in {streams.directory}", "the system of the run", remedy))
    return streams


def _check_arguments(states: object, inputs: object, *, keep_offsets: bool, dry_run: bool) -> None:
    flag("reset: dry_run", dry_run)
    flag("reset: keep_offsets", keep_offsets)
    _check_names("states", states, "ids of operators")
    _check_names("inputs", inputs, "names of streams")
    if (states is not None and inputs is not None) or (keep_offsets and inputs is None):
        wrong = "states= together with inputs=" if states is not None else "keep_offsets=True without inputs="
        raise UsageError(explain(f"reset: {wrong}", "one of the two, and keep_offsets= for inputs alone"))


def _check_names(name: str, given: object, what: str) -> None:
    several = isinstance(given, Sequence) and not isinstance(given, str | bytes) and bool(given)
    if given is not None and not (several and all(isinstance(one, str) for one in cast("Sequence[object]", given))):
        raise UsageError(explain(f"{name}={given!r}", f"{what}, one or more", f"write {name}=['visits']"))


def _steps(engine: str, inputs: Sequence[str] | None, keep_offsets: bool) -> ResetSteps:
    if engine not in ("local", "spark"):
        raise UsageError(explain(f"engine={engine!r}", '"local" or "spark"'))
    if inputs is not None:
        if engine != "local":
            wrong = f"inputs={inputs!r} with engine={engine!r}"
            raise UnsupportedError(explain(wrong, "the local engine", "reset all that this engine keeps"))
        steps = import_module("..local.input_reset", __name__).input_steps
        return lambda plan, system, *_: steps(plan, system, inputs, keep_offsets=keep_offsets)
    # By name, so that Spark is imported for its own engine only.
    engine_steps: ResetSteps = import_module(f"..{engine}.reset_steps", __name__).reset_steps
    return engine_steps
