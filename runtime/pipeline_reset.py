"""`reset`: removes the checkpoints and state of a pipeline, on either engine."""

from collections.abc import Callable, Mapping, Sequence
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
from .launch import EngineName, engine_plan
from .local.coordination.exclusion import begin_anew
from .preflight.requirements import check_requirements
from .reset_step import ResetStep
from .systems import LogSystem, open_system
from .systems.contract import System
from .systems.provisioning import table_streams
from .systems.start_points import StartPoint

ResetSteps = Callable[[Plan, System, Settings, Sequence[str] | None], AbstractContextManager[list[ResetStep]]]
"""A context manager of an engine: it yields the steps of a reset, and the pipeline cannot run while it is open."""


@partial(explained_call, error=UsageError)
def reset(
    pipeline: Pipeline,
    *,
    states: Sequence[str] | None = None,
    inputs: Sequence[str] | None = None,
    keep_offsets: bool = False,
    to: StartPoint | Mapping[str, StartPoint] | None = None,
    engine: EngineName = "local",
    system: str | System = "log:.fluvial",
    settings: Settings | None = None,
    dry_run: bool = False,
) -> list[ResetStep]:
    """Remove the state of operators, or the offsets of inputs; without `states` and `inputs` all checkpoints and state.

    `states` are ids of operators. Their state is empty in the next run, which continues at the offsets of the inputs.
    `inputs` are topics of Kafka. The next run reads them from where `Settings.offset_default` says, or with
    `keep_offsets` from the present offsets, for topics that were deleted and created again with the same messages;
    state and watermarks stay.
    Without either, checkpoints, stores, changelogs and intermediate streams are removed; outputs, dead letters and
    inputs stay. The next run reads its inputs from where `Settings.offset_default` says, or from `to`: "earliest",
    "latest", an offset, or a datetime with a time zone, for the first record whose timestamp is not before it; for all
    inputs, or by `STREAM` or `STREAM/PARTITION`. Streams of tables are read from their start.
    With `dry_run` nothing is removed. `engine`, `system` and `settings` are those of the run. Stores on other machines
    may stay: on Kafka a run restores them.

    Returns the steps. Raises SystemProblem while the pipeline runs; UsageError for an operator without state, a stream
    that is not read, an offset that it does not have, or a log that does not exist; UnsupportedError in memory, for
    `inputs` on another system than Kafka, and for `inputs` and `to` on another engine than "local".

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
    _check_arguments(states, inputs, to, keep_offsets=keep_offsets, dry_run=dry_run)
    streams = existing_system(system)
    settings = Settings() if settings is None else settings
    check_requirements(engine)
    existing = streams.admin().streams()
    # What cannot go on with the partitions that there are may be reset all the same.
    planned = engine_plan(pipeline, engine, streams, existing, settings, refuses=False)
    steps_of = _steps(engine, inputs, keep_offsets, dry_run) if to is None else _starting(engine, to, existing, dry_run)
    with steps_of(planned, streams, settings, states) as steps:
        if steps and not dry_run:
            _remove(steps, planned, engine, streams)
        return steps


def _remove(steps: Sequence[ResetStep], plan: Plan, engine: str, system: System) -> None:
    if engine == "local":
        begin_anew(plan.name, system)
    for step in steps:
        step.remove()


def existing_system(system: str | System) -> System:
    """The system of the run. A log must exist, for a reset would make an empty one."""
    streams = open_system(system)
    if isinstance(streams, LogSystem) and not streams.directory.is_dir():
        remedy = "name it: --system log:DIR, from Python system='log:DIR'"
        raise UsageError(explain(f"there is no log in {streams.directory}", "the system of the run", remedy))
    return streams


def _check_arguments(states: object, inputs: object, to: object, *, keep_offsets: bool, dry_run: bool) -> None:
    flag("reset: dry_run", dry_run)
    flag("reset: keep_offsets", keep_offsets)
    _check_names("states", states, "ids of operators")
    _check_names("inputs", inputs, "names of streams")
    if to is not None and (states is not None or inputs is not None):
        wrong = f"reset: to= together with {'states=' if states is not None else 'inputs='}"
        raise UsageError(explain(wrong, "to= alone: all that is kept is removed", "to move offsets alone: set_offsets"))
    if (states is not None and inputs is not None) or (keep_offsets and inputs is None):
        wrong = "states= together with inputs=" if states is not None else "keep_offsets=True without inputs="
        raise UsageError(explain(f"reset: {wrong}", "one of the two, and keep_offsets= for inputs alone"))


def _check_names(name: str, given: object, what: str) -> None:
    several = isinstance(given, Sequence) and not isinstance(given, str | bytes) and bool(given)
    if given is not None and not (several and all(isinstance(one, str) for one in cast("Sequence[object]", given))):
        raise UsageError(explain(f"{name}={given!r}", f"{what}, one or more", f"write {name}=['visits']"))


def _starting(
    engine: str, to: StartPoint | Mapping[str, StartPoint], existing: Mapping[str, int], dry_run: bool
) -> ResetSteps:
    """The steps of a reset after which the pipeline begins at start points."""
    if engine == "spark":
        remedy = "reset it without, and run it with offset_default; or give it another name"
        wrong = f"reset to {to!r} with engine 'spark': Spark's checkpoint has offsets that nobody can set"
        raise UnsupportedError(explain(wrong, "the local engine", remedy))
    from .local.input_offsets import named_offsets, settable  # noqa: PLC0415 - for this engine alone
    from .local.start_steps import start_steps  # noqa: PLC0415 - for this engine alone

    def steps_of(
        plan: Plan, system: System, settings: Settings, _: Sequence[str] | None
    ) -> AbstractContextManager[list[ResetStep]]:
        starting, tables = plan_on(plan.pipeline, existing, settings), table_streams(plan)
        inputs = {name: count for name, count in settable(starting).items() if name not in tables}
        named: Mapping[str, StartPoint] = to if isinstance(to, Mapping) else dict.fromkeys(inputs, to)
        offsets = named_offsets(plan, system, named, inputs, settings.offset_default)
        return start_steps(plan, system, settings, starting, offsets, dry_run=dry_run)

    return steps_of


def _steps(engine: str, inputs: Sequence[str] | None, keep_offsets: bool, dry_run: bool) -> ResetSteps:
    if engine not in ("local", "spark"):
        raise UsageError(explain(f"engine={engine!r}", '"local" or "spark"'))
    if inputs is not None:
        if engine != "local":
            wrong = f"inputs={inputs!r} with engine={engine!r}"
            raise UnsupportedError(explain(wrong, "the local engine", "reset all that this engine keeps"))
        steps = import_module("..local.input_reset", __name__).input_steps
        return lambda plan, system, *_: steps(plan, system, inputs, keep_offsets=keep_offsets, dry_run=dry_run)
    # By name, so that Spark is imported for its own engine only.
    engine_steps: Callable[..., AbstractContextManager[list[ResetStep]]] = import_module(
        f"..{engine}.reset_steps", __name__
    ).reset_steps
    # On Spark a claim alone keeps runs out, and changes nothing.
    return partial(engine_steps, dry_run=dry_run) if engine == "local" else engine_steps
