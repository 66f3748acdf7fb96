"""What a container tells of itself while it runs: about once a second, to whoever wants to know."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from ....planner.plan import Plan
from ...data_warnings.keyless import KeylessWarning
from ...data_warnings.suspicious_times import SuspiciousTimes
from ...kernel.time.bounds import END, START
from ...metrics.timing import Timing
from ...report import OnProgress, Progress, Sample, sums
from ...systems.contract import StreamPartition
from ..task import LocalTask
from ..task_metrics import TaskMetrics, task_facts
from .end_offsets import Ends

PROGRESS_SECONDS = 1.0
PATIENCE_SECONDS = 0.5
"""Wait for the ends of streams that long, then tell without them."""


class Telling:
    """Tells the progress of one container. `commit` and `rested` are kept by it: what commits take, and for how many
    seconds there was nothing to do."""

    def __init__(
        self,
        plan: Plan,
        ends: Ends,
        progress: OnProgress | None,
        *,
        container: str = "0",
        clock: Callable[[], float] = time.monotonic,
        times: SuspiciousTimes | None = None,
        noticed: Mapping[str, str] | None = None,
    ) -> None:
        """`noticed` holds what others have to warn of, by what it is about, and may grow."""
        self._plan = plan
        self._ends = ends
        self._progress = progress
        self._container = container
        self._clock = clock
        self._times = times
        self._noticed = {} if noticed is None else noticed
        self._started = clock()
        self._next = self._patience = self._started
        self._asking = False
        self._phase: str | None = None
        self._restoring_since: float | None = None
        self._restored: tuple[Sample, ...] = ()
        self._keyless = KeylessWarning(plan.pipeline)
        self.restored = (0, 0.0)
        self.commit = Timing()
        self.rested = 0.0

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return self._clock() - self._started

    def restoring(self, restored: int, left: int) -> None:
        """So many records of state have been restored, and so many offsets are left."""
        if self._restoring_since is None:
            self._restoring_since = self._clock()
        self.restored = restored, self._clock() - self._restoring_since
        self._restored = (
            Sample("restored_records", restored),
            Sample("restore_remaining_records", left),
            Sample("restore_seconds", self.restored[1]),
        )
        if self._is_due("restoring"):
            self._say("restoring", None)

    def running(self, tasks: Sequence[LocalTask]) -> None:
        """Tell how far the tasks are, if it is time to."""
        begins = self._phase != "running"
        if self._is_due("running"):
            measured = [task.metrics() for task in tasks]
            if self._times is not None:
                self._times.look(*_times_of(measured))
            self._keyless.look(task.keyless for task in measured)
            self._ends.ask(_streams(measured))
            self._asking = True
        if self._asking and (self._ends.answered or begins or self._clock() >= self._patience):
            self._asking = False
            self._say("running", [task.metrics() for task in tasks])

    def done(self, tasks: Sequence[LocalTask]) -> None:
        """Tell how it ended."""
        measured = [task.metrics() for task in tasks]
        if self._times is not None:
            self._times.finish(*_times_of(measured))
        self._keyless.look(task.keyless for task in measured)
        if self._progress is not None:
            self._ends.wait(PATIENCE_SECONDS)
            self._ends.ask(_streams(measured))
            self._ends.wait(PATIENCE_SECONDS)
            self._say("done", measured)

    @property
    def warnings(self) -> dict[str, str]:
        """What looked wrong so far: see `Report`."""
        return {**({} if self._times is None else self._times.warnings), **self._noticed}

    def behind(self, positions: Mapping[StreamPartition, int]) -> list[str] | None:
        """The streams that hold messages behind the positions to which they were read; None where that is not known."""
        lags = self._lags(positions)
        return None if lags is None else [stream for (stream, _), lag in lags.items() if lag > 0]

    def _is_due(self, phase: str) -> bool:
        now = self._clock()
        if now < self._next and phase == self._phase:
            return False
        self._next, self._patience, self._phase = now + PROGRESS_SECONDS, now + PATIENCE_SECONDS, phase
        return True

    def _say(self, phase: str, measured: Sequence[TaskMetrics] | None) -> None:
        if self._progress is None:
            return
        seconds, tasks = self.seconds, measured or ()
        positions = {(one.stream, one.partition): one.next_offset for task in tasks for one in task.inputs}
        lags = None if measured is None else self._lags(positions)
        facts = [fact for task in tasks for fact in task_facts(self._plan, task, lags or {})]
        self._progress(
            Progress(
                phase=phase,
                seconds=seconds,
                read=sum(one.processed for task in tasks for one in task.inputs),
                written=sum(sum(task.written.values()) for task in tasks),
                lag=None if lags is None else sum(lags.values()),
                watermark=min((task.watermark for task in tasks if task.watermark not in (START, END)), default=None),
                in_flight=sum(sum(task.calls.values()) for task in tasks),
                pipeline=self._plan.name,
                engine="local",
                container=self._container,
                keyless=sums(task.keyless for task in tasks),
                facts=(*facts, *self._restored, *self._own_facts(seconds)),
                warnings=self.warnings,
            )
        )

    def _own_facts(self, seconds: float) -> Iterator[Sample]:
        yield Sample("commit_seconds", self.commit.histogram)
        yield Sample("uptime_seconds", seconds)
        yield Sample("event_loop_busy_seconds", seconds - self.rested)

    def _lags(self, positions: Mapping[StreamPartition, int]) -> dict[StreamPartition, int] | None:
        """What is still to be read from these positions on, None where that is not known."""
        ends = self._ends.latest
        if ends is None:
            return None
        known = {place: at for place, at in positions.items() if place[0] in ends}
        return {(stream, number): max(0, ends[stream][number] - at) for (stream, number), at in known.items()}


def _streams(tasks: Sequence[TaskMetrics]) -> list[str]:
    return list(dict.fromkeys(one.stream for task in tasks for one in task.inputs))


def _times_of(tasks: Sequence[TaskMetrics]) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """What `SuspiciousTimes` judges: the largest timestamps, messages given to operators, and late ones."""
    highs: dict[str, int] = {}
    for task in tasks:
        for stream, high in task.highs.items():
            highs[stream] = max(high, highs.get(stream, high))
    return highs, sums(task.given for task in tasks), sums(task.late for task in tasks)
