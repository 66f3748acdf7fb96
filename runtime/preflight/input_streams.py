"""Which streams a run reads: one that is deleted and made anew has other messages at the same offsets, and one that is
given more partitions has some that the run does not read (ADR 0029)."""

import logging
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from threading import Thread

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..systems.contract import SendingSystem, StreamDescription, System
from .other_engine import read_by_other
from .state_compatibility import reset_command

LOGGER = "fluvial.streams"
"""Where the warnings are logged."""
LOOK_SECONDS = 10.0
"""Time between two looks at the streams while a run goes on."""
PARTITIONS = "partitions of "
"""What the subject of a warning begins with, before the name of the stream."""
ENGINE = "engine"
"""The subject of the warning that the other engine has read the inputs before."""
SUBJECTS = (PARTITIONS, ENGINE)

_log = logging.getLogger(LOGGER)

Facts = Mapping[str, StreamDescription]


def inputs_of(plan: Plan) -> list[str]:
    """The streams that the stages of a plan read."""
    return sorted({stream for stage in plan.stages for stream in stage.inputs})


def facts_of(system: System, streams: Collection[str]) -> Facts:
    """What these streams are, as far as they exist; nothing on a system whose streams are never made anew."""
    return system.admin().describe(streams) if isinstance(system, SendingSystem) else {}


def recreated(plan: Plan, stream: str, where: str, reset: str, engine: str = "local") -> SystemProblem:
    """The error of a stream that is another than the one that was read. `reset` is the command that resets the
    pipeline."""
    wrong = f"the stream {stream!r} of {where} is not the one that pipeline {plan.name!r} has read: it was deleted and "
    wrong += "made anew, and has other messages at the same offsets"
    remedy = f"begin again: {reset} --all"
    if engine == "local":
        remedy = f"read it from its start: {reset} --stream {stream}; or, if it holds the same messages as before, "
        remedy += f"go on: {reset} --stream {stream} --keep-offsets"
    return SystemProblem(explain(wrong, "the stream that the offsets were kept of", remedy, _origin(plan, stream)))


def _origin(plan: Plan, stream: str) -> object:
    sources = (source for source in plan.pipeline.sources if source.stream == stream)
    return next((source.origin for source in sources), plan.pipeline.origin)


class InputWatch:
    """Looks at the start whether the other engine has read the inputs, and now and then whether they are the streams
    that were there at the start, whose `identities` it knows.
    `warnings` are what it has told, by what they are about."""

    def __init__(
        self,
        plan: Plan,
        system: System,
        settings: Settings,
        streams: Collection[str],
        *,
        engine: str = "local",
        ends: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """A run that `ends` by itself leaves new partitions to a later one."""
        self.warnings: dict[str, str] = {}
        if other := read_by_other(plan, system, settings, engine):
            expected = "one engine for a pipeline, or outputs of its own for each"
            self._warn(ENGINE, explain(other.wrong, expected, other.remedy, plan.pipeline.origin))
        self._plan, self._system, self._engine, self._ends, self._clock = plan, system, engine, ends, clock
        self._reset = reset_command(plan, system, settings, engine)
        self._facts = facts_of(system, streams)
        self.identities = {stream: one.id for stream, one in self._facts.items() if one.id}
        self._next = clock() + LOOK_SECONDS
        self._thread: Thread | None = None
        self._answer: Facts = {}

    def look(self) -> None:
        """Raise SystemProblem where a stream is another by now; warn of new partitions, once for each stream. It does
        not wait for the answers of the system."""
        if self._thread is not None and not self._thread.is_alive():
            self._thread = None
            self._judge(self._answer)
        if self._facts and self._thread is None and self._clock() >= self._next:
            self._next = self._clock() + LOOK_SECONDS
            self._thread = Thread(target=self._ask, name="fluvial-inputs", daemon=True)
            self._thread.start()

    def _ask(self) -> None:
        self._answer = {}
        with suppress(SystemProblem):  # a system that is away is for those who read from it to meet
            self._answer = facts_of(self._system, self._facts)

    def _judge(self, facts: Facts) -> None:
        for stream, now in facts.items():
            if now.id and self.identities.get(stream, now.id) != now.id:
                raise recreated(self._plan, stream, self._system.url, self._reset, self._engine)
        for stream, now in facts.items():
            planned = self._plan.stream(stream).partitions
            if now.partitions > planned and not self._ends:
                self._warn(PARTITIONS + stream, self._grown(stream, planned, now.partitions))

    def _grown(self, stream: str, before: int, now: int) -> str:
        wrong = f"the stream {stream!r} of {self._system.url} has {now} partitions by now: this run reads the "
        wrong += f"{before} that it had at the start"
        remedy = (
            "run fluvial check, which tells whether a new run can go on with what is kept, and start the pipeline "
            "again, all containers of it: a new run reads all partitions"
        )
        return explain(wrong, "as many as at the start", remedy, _origin(self._plan, stream))

    def _warn(self, subject: str, text: str) -> None:
        if subject not in self.warnings:
            self.warnings[subject] = text
            _log.warning(text)
