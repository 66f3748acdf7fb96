"""Changes the size of a run while it runs: lets an autosizer decide by what containers report, and carries it out."""

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from msgspec.structs import replace

from ...dsl.errors import FluvialError, UsageError
from ...dsl.text import plural
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.planner import plan_on
from ...planner.settings import SPLITS, Settings
from ...planner.task_assignment import numbers_of, stages_of, stages_with
from ..autosize.autosize_options import Autosize
from ..autosize.autosizer import SizeDecision
from ..autosize.load_meter import LoadMeter
from ..autosize.run_load import RunLoad, RunSize
from ..local.checkpoints.rescaled import with_elasticity
from ..local.coordination.assignments import SizingRecord
from ..local.coordination.coordinator_stream import Coordinator
from ..local.handover.scaling import scale_run
from ..process.machine import THIS_MACHINE, Machine
from ..report import Progress
from ..systems.contract import System
from .running_child import Say

# Shorter than that of a user's own `scale`: by then the load may be another one than the size was chosen for.
SCALE_TIMEOUT = timedelta(minutes=10)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AutosizePace:
    """How often an autosizer decides, in seconds: between two decisions, in which a load is measured, between two
    records of why the run stays as it is, and until a change that failed is tried again, at first and at most."""

    decide: float = 5.0
    window: float = 20.0
    record: float = 60.0
    retry: tuple[float, float] = (30.0, 600.0)


PACE = AutosizePace()


class Autosizing:
    """Decides the size of a run again and again, in a thread of its own, and changes the run.

    The supervisor hands over what containers report (`add`). What is decided stands in the coordinator stream, from
    where containers report it. An error ends nothing: it is logged, and the run stays as it is until the next decision.
    """

    def __init__(
        self,
        plan: Plan,
        system: System,
        run: str,
        asked: Autosize,
        say: Say,
        *,
        whole: frozenset[str] = frozenset(),
        processors: int | None = None,
        pace: AutosizePace | None = None,
        scale: Callable[..., object] = scale_run,
        machine: Machine = THIS_MACHINE,
    ) -> None:
        """`whole` are the stages that are never split. The containers share so many `processors`; None where each has
        its own."""
        self._plan, self._system, self._run, self._asked, self._say = plan, system, run, asked, say
        self._bounds = asked.bounds(processors)
        self._machine, self._clock = machine, machine.clock
        self._pace, self._scale = pace or PACE, scale
        self._meter = LoadMeter(plan, self._pace.window, whole)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._containers = 0
        self._recorded_at, self._advised = float("-inf"), ""
        self._retry_at, self._pause = float("-inf"), self._pace.retry[0]
        self._thread = threading.Thread(target=self._work, name="fluvial-autosizer", daemon=True)

    def start(self) -> None:
        """Begin to decide."""
        self._thread.start()

    def stop(self) -> None:
        """Decide no more. A change that is under way is not waited for."""
        self._stopped.set()

    def close(self) -> None:
        """Stop, and wait until that is done."""
        self.stop()
        if self._thread.is_alive():
            self._thread.join()

    def add(self, progress: Progress) -> None:
        """Add what a container has reported."""
        with self._lock:
            self._containers = progress.containers or self._containers
            self._meter.add(progress, self._clock())

    def _work(self) -> None:
        while not self._stopped.wait(self._pace.decide):
            self.turn()

    def turn(self) -> None:
        """Decide once, if the load is known, and carry it out."""
        now = self._clock()
        with self._lock:
            load = self._meter.load(now, self._containers) if self._containers else None
        if load is None or now < self._retry_at:
            return
        try:
            decision = self._decided(load)
            if decision.size == load.size:
                self._stay(decision, now)
            elif self._asked.advise:
                self._advise(decision, now)
            else:
                self._change(load, decision)
            self._pause = self._pace.retry[0]
        except Exception as error:  # of the system's, or of a user's autosizer, which may raise anything
            self._put_off(error)

    def _decided(self, load: RunLoad) -> SizeDecision:
        """What the autosizer decides. Raises UsageError if that is beyond the bounds."""
        decision = self._asked.autosizer.decide(load, self._bounds)
        size, expected = decision.size, f"a size within {self._bounds}, of the stages {', '.join(load.numbers)}"
        low, high = self._bounds.containers
        split = size.elasticity.keys() == load.numbers.keys() and {*size.elasticity.values()} <= {*SPLITS}
        if not (type(size.containers) is int and low <= size.containers <= high and split):
            wrong = f"{type(self._asked.autosizer).__name__}.decide() returned {size!r}"
            raise UsageError(explain(wrong, expected, "correct the autosizer", "Autosize"))
        whole = {stage: 1 for stage in load.whole if stage in size.elasticity}
        return SizeDecision(RunSize(size.containers, {**size.elasticity, **whole}), decision.reason)

    def _stay(self, decision: SizeDecision, now: float) -> None:
        self._advised = ""
        if now - self._recorded_at >= self._pace.record:
            self._record(decision, now)

    def _advise(self, decision: SizeDecision, now: float) -> None:
        if (shown := str(decision.size)) != self._advised or now - self._recorded_at >= self._pace.record:
            self._record(decision, now)
        if shown != self._advised:
            self._advised = shown
            self._report(f"autosizer: advises {plural(decision.size.containers, 'container')}: {decision.reason}")

    def _change(self, load: RunLoad, decision: SizeDecision) -> None:
        began, size = self._clock(), decision.size
        self._record(decision, began)
        before, wanted = load.size.containers, plural(size.containers, "container")
        self._report(f"autosizer: from {before} to {wanted}: {decision.reason}")
        changed = [stage for stage, factor in size.elasticity.items() if factor != load.size.elasticity[stage]]
        self._scale(
            with_elasticity(self._plan, size.elasticity),
            self._system,
            size.containers,
            elastic=changed,
            timeout=SCALE_TIMEOUT,
            say=_log.info,
            stop=self._stopped.is_set,
            machine=self._machine,
        )
        if not self._stopped.is_set():
            self._report(f"autosizer: {wanted} after {self._clock() - began:.1f} s")

    def _record(self, decision: SizeDecision, now: float) -> None:
        """Write a decision to the coordinator stream, from where `top` and the metrics of the containers have it."""
        size = decision.size
        record = SizingRecord(
            run=self._run,
            containers=size.containers,
            elasticity=dict(size.elasticity),
            reason=decision.reason,
            applied=not self._asked.advise,
        )
        Coordinator(self._system, self._plan.name, self._machine).write(record)
        self._recorded_at = now

    def _report(self, line: str) -> None:
        self._say(line)
        _log.info(line)

    def _put_off(self, error: Exception) -> None:
        """Try again later, and later each time."""
        if self._stopped.is_set():
            return
        self._retry_at = self._clock() + self._pause
        first = (str(error) or type(error).__name__) if isinstance(error, FluvialError) else repr(error)
        self._say(f"autosizer: {first}\n  the run stays as it is; tried again in {self._pause:.0f} s")
        self._pause = min(2 * self._pause, self._pace.retry[1])


def whole_stages(plan: Plan, settings: Settings) -> frozenset[str]:
    """The stages that elasticity does not split, as they read broadcasts alone."""
    counts = {stream.name: stream.spread for stream in plan.streams if stream.kind == "source"}
    split = plan_on(plan.pipeline, counts, replace(settings, elasticity=2))
    return frozenset(stage.id for stage in split.stages if stage.elasticity == 1)


def first_size(plan: Plan, system: System, asked: Autosize, machine: Machine = THIS_MACHINE) -> RunSize:
    """The size with which a run begins: that of the last run, as far as the bounds allow it, else the least."""
    low, high = asked.containers
    least = RunSize(low, {stage.id: asked.elasticity[0] for stage in plan.stages})
    last = Coordinator(system, plan.name, machine).read()[0].assignment
    if last is None or last.until != "stopped":
        return least
    stages = stages_with(last.tasks)
    if numbers_of(stages) != numbers_of(stages_of(plan)):
        return least
    elasticity = {
        stage: min(max(tasks.elasticity, asked.elasticity[0]), asked.elasticity[1]) for stage, tasks in stages.items()
    }
    return RunSize(min(max(last.containers, low), high), {stage.id: elasticity[stage.id] for stage in plan.stages})


def shared_processors(*, elsewhere: bool) -> int | None:
    """How many processors the containers share: those of this machine, unless they run elsewhere."""
    if elsewhere:
        return None
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()  # macOS has none
