"""Monitors the streams that a run reads. A stream that was deleted and created again has other messages at the same
offsets. One that got more partitions has grown: the tasks read them, or the run says that it does not (ADR 0054)."""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from threading import Thread

from ...dsl.errors import PlanError, SystemProblem
from ...dsl.validation import explain
from ...planner.growths import fits
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..data_warnings.warnings_by_subject import warn_once
from ..systems.contract import ProducingSystem, StreamDescription, System
from ..systems.errors import OffsetOutside
from .other_engine import other_engine_warning
from .state_compatibility import reset_command

LOGGER = "fluvial.streams"
"""Where the warnings are logged."""
CHECK_SECONDS = 10.0
"""Seconds between two checks of the streams during a run."""
PARTITIONS = "partitions of "
"""The subject of the warning of new partitions begins with this; the name of the stream follows."""
ENGINE = "engine"
"""The subject of the warning that the other engine has read the inputs before."""
SUBJECTS = (PARTITIONS, ENGINE)

_log = logging.getLogger(LOGGER)

Descriptions = Mapping[str, StreamDescription]


def inputs_of(plan: Plan) -> list[str]:
    """The streams that the stages of a plan read."""
    return sorted({stream for stage in plan.stages for stream in stage.inputs})


def descriptions_of(system: System, streams: Collection[str]) -> Descriptions:
    """The descriptions of those of these streams that exist; empty on a system whose streams cannot be deleted."""
    return system.admin().describe(streams) if isinstance(system, ProducingSystem) else {}


def _seconds_between(system: System) -> float:
    """Seconds between two looks at the streams of a system."""
    if not isinstance(system, ProducingSystem):
        return CHECK_SECONDS
    return min(CHECK_SECONDS, system.admin().metadata_ms / 1000)


def recreated(plan: Plan, stream: str, where: str, reset: str, engine: str = "local") -> SystemProblem:
    """The error for a stream that was deleted and created again since it was read. `reset` is the command that resets
    the pipeline."""
    wrong = f"the stream {stream!r} of {where} is not the one that pipeline {plan.name!r} has read: it was deleted and "
    wrong += "created again, and has other messages at the same offsets"
    remedy = f"start over: {reset} --all"
    if engine == "local":
        remedy = f"read it from its start: {reset} --stream {stream}; or, if it holds the same messages as before, "
        remedy += f"continue: {reset} --stream {stream} --keep-offsets"
    return SystemProblem(explain(wrong, "the stream that the stored offsets belong to", remedy, _origin(plan, stream)))


def unfit_growth(plan: Plan, stream: str, known: int, count: int) -> PlanError:
    """The error for a stream of which tasks with state have read `known` partitions, and that has a `count` with which
    keys are in partitions of other tasks."""
    wrong = f"the stream {stream!r} has {count} partitions, and the state of pipeline {plan.name!r} is of keys that "
    wrong += f"were in {known}: with {count} they are in partitions of other tasks, or in others that are read already"
    remedy = "start over, with all that is kept removed: fluvial reset"
    if known % plan.stream(stream).spread == 0:
        more = f"give it {count + -count % known} partitions, with which each key stays with its state"
        remedy = f"{more}, if nothing was written to it meanwhile; else {remedy}"
    return PlanError(explain(wrong, f"a multiple of {known} partitions", remedy, _origin(plan, stream)))


def _origin(plan: Plan, stream: str) -> object:
    sources = (source for source in plan.pipeline.sources if source.stream == stream)
    return next((source.origin for source in sources), plan.pipeline.origin)


class InputStreamMonitor:
    """Warns at the start of a run if the other engine has read the inputs. During the run it checks every 10 s that
    each input is still the same stream (its `identities`), and more often where clients are to hear of new partitions
    sooner. `warnings` are all warnings so far, by subject; `grown` has the partitions of sources that have got more
    than the plan has, and that the run is to read."""

    def __init__(
        self,
        plan: Plan,
        system: System,
        settings: Settings,
        streams: Collection[str],
        *,
        engine: str = "local",
        ends: bool = False,
        grows: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """With `ends` the run stops at the end of its inputs, and new partitions are for a later run. One that `grows`
        reads those that are new."""
        self.warnings: dict[str, str] = {}
        self.grown: dict[str, int] = {}
        if other := other_engine_warning(plan, system, settings, engine):
            expected = "one engine per pipeline, or separate outputs for each engine"
            text = explain(other.wrong, expected, other.remedy, plan.pipeline.origin)
            warn_once(self.warnings, ENGINE, text, _log)
        self._plan, self._system, self._engine, self._ends, self._clock = plan, system, engine, ends, clock
        self._reset = reset_command(plan, system, settings, engine)
        self._descriptions = descriptions_of(system, streams)
        self.identities = {stream: one.id for stream, one in self._descriptions.items() if one.id}
        self._grows, self._seconds = grows, _seconds_between(system)
        self._next = clock() + self._seconds
        self._thread: Thread | None = None
        self._answer: Descriptions = {}

    def check(self) -> None:
        """Raise SystemProblem if a stream was deleted and created again, and PlanError if one has grown by what tasks
        with state cannot follow; warn of other new partitions, once for each stream. It does not wait for the system: a
        thread fetches the descriptions, and a later call compares them."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._compare(self._answer)
        if self._descriptions and self._thread is None and self._clock() >= self._next:
            self._next = self._clock() + self._seconds
            self._thread = Thread(target=self._fetch, name="fluvial-inputs", daemon=True)
            self._thread.start()

    @contextmanager
    def offsets_explained(self) -> Iterator[None]:
        """Where an offset is not in its partition any more because the stream was deleted and created again, raise the
        error that says so. `check` may hear of it only later."""
        try:
            yield
        except OffsetOutside as error:
            self._fetch()
            self._refuse_recreated(self._answer, error)
            raise

    def _fetch(self) -> None:
        self._answer = {}
        with suppress(SystemProblem):  # if the system is out of reach, the consumer raises the error
            self._answer = descriptions_of(self._system, self._descriptions)

    def _refuse_recreated(self, current: Descriptions, cause: SystemProblem | None = None) -> None:
        for stream, now in current.items():
            if now.id and self.identities.get(stream, now.id) != now.id:
                raise recreated(self._plan, stream, self._system.url, self._reset, self._engine) from cause

    def _compare(self, current: Descriptions) -> None:
        self._refuse_recreated(current)
        for stream, now in current.items():
            planned = self._plan.stream(stream).partitions
            if now.partitions <= planned or self._ends:
                continue
            # An intermediate stream never grows.
            source = self._plan.stream(stream).kind == "source"
            if self._grows and source:
                if not fits(self._plan, stream, now.partitions):
                    raise unfit_growth(self._plan, stream, planned, now.partitions)
                self.grown[stream] = now.partitions
            else:
                text = self._grown(stream, planned, now.partitions)
                warn_once(self.warnings, PARTITIONS + stream, text, _log)

    def follow(self, plan: Plan) -> None:
        """Compare with a plan in which sources have grown from now on."""
        self._plan, self.grown = plan, {}

    def _grown(self, stream: str, before: int, now: int) -> str:
        wrong = f"the stream {stream!r} of {self._system.url} has {now} partitions now: this run reads the "
        wrong += f"{before} that it had at the start"
        remedy = (
            "run fluvial check to see whether a new run can continue with the stored state, and start the pipeline "
            "again, with all its containers: a new run reads all partitions"
        )
        if self._engine == "spark":
            remedy = (
                "Spark cannot continue a checkpoint with other partitions: give the pipeline another name, or start "
                f"over, which reads inputs from their start: {self._reset} --all"
            )
        return explain(wrong, "as many as at the start", remedy, _origin(self._plan, stream))
