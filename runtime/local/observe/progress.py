"""The progress of a container, reported about once a second to a function of the caller's."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from ....planner.plan import Plan
from ....planner.stream_names import growth_of
from ...data_warnings.keyless import KeylessWarning
from ...data_warnings.suspicious_times import SuspiciousTimes
from ...kernel.calls.admission import Admission
from ...kernel.calls.circuit import Circuit
from ...kernel.calls.function_pools import PoolUse
from ...kernel.time.bounds import END, START
from ...metrics.timing import Timing
from ...report import HotKey, OnProgress, Progress, Report, Sample, sums
from ...systems.contract import StreamPartition
from ...systems.end_offsets import EndOffsets
from ..task import LocalTask
from ..task_metrics import TaskCounts, TaskMetrics, task_samples, total
from .input_counts import InputCounts
from .size_progress import SizeProgress

# For people and supervisors; each report counts all tasks, and asks the system for the ends of streams.
PROGRESS_SECONDS = 1.0
PATIENCE_SECONDS = 0.5
"""How long a report waits for the end offsets of streams; after that it is given without lags."""


_log = logging.getLogger(__name__)


class ProgressReporter:
    """Reports the progress of one container. The container sets `inputs` (what it has read), and updates `commit` (the
    durations of commits) and `idle_seconds` (the time without work)."""

    def __init__(
        self,
        plan: Plan,
        ends: EndOffsets,
        progress: OnProgress | None,
        *,
        container: str = "0",
        clock: Callable[[], float] = time.monotonic,
        processor: Callable[[], float] = time.process_time,
        times: SuspiciousTimes | None = None,
        warnings: Mapping[str, str] | None = None,
        elasticity_change_seconds: float | None = None,
    ) -> None:
        """`warnings` are those of others, by subject; the mapping may grow during the run. The elasticity was changed
        in `elasticity_change_seconds` before it; None if it was not."""
        self._plan = plan
        self._ends = ends
        self._progress = progress
        self._container = container
        self._clock = clock
        self._suspicious_times = times
        self._other_warnings = {} if warnings is None else warnings
        self._exhausted: dict[str, str] = {}
        self._processor, self._processor_before = processor, processor()
        self._started = clock()
        self._next = self._patience = self._started
        self._waiting = False
        self._phase: str | None = None
        self._restoring_since: float | None = None
        self._restored: tuple[Sample, ...] = ()
        self._elasticity_change_seconds = elasticity_change_seconds
        self._keyless_warning = KeylessWarning(plan.pipeline)
        self.restored = (0, 0.0)
        self.inputs: InputCounts | None = None
        self.commit = Timing()
        self.idle_seconds = 0.0
        self.left = TaskCounts()
        """What was counted by tasks that other containers have now."""
        self.size = SizeProgress()
        self.limits: Sequence[Admission] = ()
        """What lets calls of the container begin within limits."""
        self.circuits: Sequence[Circuit] = ()
        """What leaves off calls of services that fail."""
        self.pools: Callable[[], Iterable[PoolUse]] = tuple
        """How the pools of plain functions are used."""

    @property
    def seconds(self) -> float:
        """Seconds since the start of the run."""
        return self._clock() - self._started

    def restoring(self, restored: int, left: int) -> None:
        """Report a restore: how many records have been restored, and how many offsets are `left` to read."""
        if self._restoring_since is None:
            self._restoring_since = self._clock()
        self.restored = restored, self._clock() - self._restoring_since
        self._restored = (
            Sample("restored_records", restored),
            Sample("restore_remaining_records", left),
            Sample("restore_seconds", self.restored[1]),
        )
        if self._is_due("restoring"):
            self._report("restoring", None)

    def leaves(self, task: TaskMetrics) -> None:
        """Another container has a task from now on. What it has counted here goes on to count."""
        self.left = total([self.left, task.counts])

    def running(self, tasks: Sequence[LocalTask]) -> None:
        """Report the progress of the tasks, if a report is due."""
        begins = self._phase != "running"
        # What was requested in the last turn first: where a turn takes longer than a report, none would come else.
        if self._waiting and (self._ends.answered or self._clock() >= self._patience):
            self._waiting = False
            self._report("running", [task.metrics() for task in tasks])
        if not self._waiting and self._is_due("running"):
            measured = [task.metrics() for task in tasks]
            if self._suspicious_times is not None:
                self._suspicious_times.check(*_times_of(measured))
            self._keyless_warning.check(task.keyless for task in measured)
            self._ends.request(_streams(measured))
            self._waiting = True
            if begins or self._ends.answered:
                self._waiting = False
                self._report("running", measured)

    def done(self, tasks: Sequence[LocalTask]) -> None:
        """Report the end of the run."""
        measured = [task.metrics() for task in tasks]
        if self._suspicious_times is not None:
            self._suspicious_times.finish(*_times_of(measured))
        self._keyless_warning.check(task.keyless for task in measured)
        if self._progress is not None:
            self._ends.wait(PATIENCE_SECONDS)
            self._ends.request(_streams(measured))
            self._ends.wait(PATIENCE_SECONDS)
            self._report("done", measured)

    @property
    def hot_keys(self) -> tuple[HotKey, ...]:
        """The hottest keys of tasks that are split, as in `Report`."""
        return () if self.inputs is None else self.inputs.hot_keys()

    @property
    def warnings(self) -> dict[str, str]:
        """What was found wrong since the start of this container, as in `Report`; no warning is taken back."""
        times = {} if self._suspicious_times is None else self._suspicious_times.warnings
        return {**times, **self._other_warnings, **self._exhausted}

    def follow_limits(self, limits: Sequence[Admission]) -> None:
        """Report what calls wait for these limits, and warn once a budget is exhausted."""
        self.limits = limits
        for admission in limits:
            admission.on_exhausted = partial(self._warn_of_budget, admission.limit.name)

    def _warn_of_budget(self, limit: str, text: str) -> None:
        self._exhausted[f"limit {limit}"] = text
        _log.warning("pipeline %r: %s", self._plan.name, text)

    def behind(self, positions: Mapping[StreamPartition, int]) -> list[StreamPartition] | None:
        """The partitions that have messages after these positions; None if the end offsets are unknown."""
        lags = self._lags(positions)
        return None if lags is None else [partition for partition, lag in lags.items() if lag > 0]

    def _is_due(self, phase: str) -> bool:
        now = self._clock()
        if now < self._next and phase == self._phase:
            return False
        self._next, self._patience, self._phase = now + PROGRESS_SECONDS, now + PATIENCE_SECONDS, phase
        return True

    def _report(self, phase: str, measured: Sequence[TaskMetrics] | None) -> None:
        if self._progress is None:
            return
        seconds, tasks = self.seconds, measured or ()
        counts = total([self.left, *(task.counts for task in tasks)])
        positions: dict[StreamPartition, int] = {}
        for one in (one for task in tasks for one in task.inputs):
            partition = (one.stream, one.partition)  # of several tasks where they are split by key
            positions[partition] = min(one.next_offset, positions.get(partition, one.next_offset))
        lags = None if measured is None else self._lags(positions)
        samples = [sample for task in tasks for sample in task_samples(self._plan, task, lags or {})]
        self._progress(
            Progress(
                phase=phase,
                seconds=seconds,
                read=sum(counts.processed.values()),
                written=sum(counts.written.values()),
                lag=None if lags is None else sum(lags.values()),
                watermark=min((task.watermark for task in tasks if task.watermark not in (START, END)), default=None),
                in_flight=sum(sum(task.calls.values()) for task in tasks),
                pipeline=self._plan.name,
                engine="local",
                container=self._container,
                keyless=dict(counts.keyless),
                facts=(*samples, *self._restored, *self._own_samples(seconds)),
                hot_keys=self.hot_keys,
                warnings=self.warnings,
                generation=self.size.generation,
                containers=self.size.containers,
                sizing=self.size.text,
            )
        )

    def _own_samples(self, seconds: float) -> Iterator[Sample]:
        if self.inputs is not None:
            yield from self.inputs.samples()
        if self._elasticity_change_seconds is not None:
            yield Sample("elasticity_change_seconds", self._elasticity_change_seconds)
        yield from self.size.samples()
        for limit in self.limits:
            yield from limit_samples(limit)
        for circuit in self.circuits:
            yield Sample("breaker_open", int(circuit.open), (circuit.name,))
            yield Sample("breaker_openings", circuit.openings, (circuit.name,))
        for pool in self.pools():
            yield Sample("pool_permits", pool.permits, (pool.function,))
            yield Sample("pool_permits_taken", pool.taken, (pool.function,))
            yield Sample("pool_waiting_calls", pool.waiting, (pool.function,))
        yield Sample("commit_seconds", self.commit.histogram)
        yield Sample("uptime_seconds", seconds)
        yield Sample("event_loop_busy_seconds", seconds - self.idle_seconds)
        yield Sample("processor_seconds", self._processor() - self._processor_before)

    def _lags(self, positions: Mapping[StreamPartition, int]) -> dict[StreamPartition, int] | None:
        """How many offsets are to be read after these positions; None if the end offsets are unknown."""
        ends = self._ends.latest
        if ends is None:
            return None
        # Of a partition that was found since they were asked for the end is not known yet.
        known = {partition: at for partition, at in positions.items() if partition[1] < len(ends.get(partition[0], ()))}
        return {(stream, number): max(0, ends[stream][number] - at) for (stream, number), at in known.items()}


def limit_samples(admission: Admission) -> Iterator[Sample]:
    """The samples of what a container has used of a limit, and of what waits for it."""
    name = admission.limit.name
    yield Sample("limit_waiting_calls", admission.waiting, (name,))
    yield Sample("limit_wait_seconds", admission.waited_seconds, (name,))
    yield Sample("limit_holds", int(admission.holds), (name,))
    for amount, meter in admission.meters.items():
        yield Sample("limit_used", meter.used_in_all, (name, amount))
        yield Sample("limit_share", meter.most, (name, amount))


def report_of(
    plan: Plan,
    tasks: Sequence[TaskMetrics],
    seconds: float,
    reporter: ProgressReporter,
    *,
    resumed: bool,
    drained: bool = False,
    shut_down: bool = False,
) -> Report:
    """The report of a run after so many seconds, from the metrics of its tasks."""
    counts = total([reporter.left, *(task.counts for task in tasks)])
    return Report(
        pipeline=plan.name,
        engine="local",
        seconds=seconds,
        checkpoints=counts.commits,
        restored=reporter.restored[0],
        restore_seconds=reporter.restored[1],
        resumed=resumed,
        drained=drained,
        shut_down=shut_down,
        read=dict(counts.processed),
        written=dict(counts.written),
        late=dict(counts.late),
        failed=dict(counts.failed),
        keyless=dict(counts.keyless),
        warnings=reporter.warnings,
        hot_keys=reporter.hot_keys,
    )


def _streams(tasks: Sequence[TaskMetrics]) -> list[str]:
    return list(dict.fromkeys(one.stream for task in tasks for one in task.inputs))


def _times_of(tasks: Sequence[TaskMetrics]) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """The figures that `SuspiciousTimes` checks: largest timestamps, messages given to operators, and late ones."""
    highs: dict[str, int] = {}
    for task in tasks:
        for name, high in task.highs.items():
            stream, _ = growth_of(name)
            highs[stream] = max(high, highs.get(stream, high))
    return highs, sums(task.given for task in tasks), sums(task.late for task in tasks)
