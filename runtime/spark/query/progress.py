"""Monitoring of queries while they run: their progress, metrics and warnings, and the report at the end."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from ....planner.plan import Plan
from ...data_warnings.keyless import KeylessWarning
from ...data_warnings.suspicious_times import SuspiciousTimes
from ...metrics.timing import Timing
from ...preflight.input_streams import InputStreamMonitor
from ...process.machine import THIS_MACHINE, Machine
from ...report import OnProgress, Progress, Report, Sample
from ...systems.provisioning import table_streams
from ..counts import Counts
from ..lowering.query_plan import QueryPlan
from .checkpoint_log import DONE, PLANNED, batch_numbers, last_batch, last_end_offsets, logged_at
from .connection import Connection, Offsets
from .input_offsets import input_ends
from .job_tasks import sum_of
from .metrics import count_samples, source_samples, task_samples
from .query_status import QueryStatus, by_stream

if TYPE_CHECKING:
    from pyspark import SparkContext

PROGRESS_SECONDS = 1.0
"""Time between two reports of progress."""
TIMES_SECONDS = 10.0
"""Time between two checks of messages' timestamps."""


def report_of(
    plan: Plan,
    counts: Mapping[str, Mapping[str, int]],
    seconds: float,
    *,
    batches: int = 0,
    resumed: bool = False,
    warnings: Mapping[str, str] = MappingProxyType({}),
) -> Report:
    """The report of a run that has counted so much, by kind: names in the order of the plan, without those that are
    0."""
    names = [stream.name for stream in plan.streams] + [operator.id for operator in plan.operators]
    order = {name: index for index, name in reversed(list(enumerate(names)))}
    read, written, late, failed, keyless = (
        {name: of[name] for name in sorted(of, key=lambda name: order.get(name, len(order))) if of[name]}
        for of in (counts.get(kind, {}) for kind in ("read", "written", "late", "failed", "keyless"))
    )
    return Report(
        pipeline=plan.name,
        engine="spark",
        seconds=seconds,
        read=read,
        written=written,
        late=late,
        failed=failed,
        keyless=keyless,
        checkpoints=batches,
        resumed=resumed,
        warnings=dict(warnings),
    )


def latest_times(plan: Plan, watermarks: Mapping[str, int]) -> dict[str, int]:
    """The largest timestamp of each source, by the watermarks of its partitions."""
    behind = {source.stream: source.out_of_order for source in plan.pipeline.sources}
    latest: dict[str, int] = {}
    for partition, watermark in watermarks.items():
        stream = partition.rpartition("/")[0]
        if stream in behind:
            latest[stream] = max(watermark + behind[stream], latest.get(stream, watermark + behind[stream]))
    return latest


class QueryMonitor:
    """Reports the progress of all queries of a run, and knows whether the run is to stop."""

    def __init__(
        self,
        plan: Plan,
        queries: Sequence[QueryPlan],
        connection: Connection,
        context: "SparkContext",
        started: float,
        progress: OnProgress | None,
        stop: Callable[[], bool],
        inputs: InputStreamMonitor,
        stamped: Collection[str] = (),
        machine: Machine = THIS_MACHINE,
    ) -> None:
        """The streams in `stamped` have times that do not come from whoever has written them to a system."""
        self._plan, self._queries, self._connection = plan, queries, connection
        self._admin = connection.system.admin()
        self.statuses = {query.group: QueryStatus(query, connection, context) for query in queries}
        self._started, self._progress, self._clock = started, progress, machine.clock
        # Counts are those of all runs of a checkpoint, and a report is of this one.
        self._first_totals, self._first_batches = self._totals(), self._batches()
        self._timing = Timing()
        self._times = SuspiciousTimes(plan, machine.clock, machine.wall, stamped)
        self._inputs = inputs
        self._keyless = KeylessWarning(plan.pipeline)
        self._timed = {query.group: last_batch(query.checkpoint, DONE) for query in queries}
        self._next, self._next_times = started + PROGRESS_SECONDS, started + TIMES_SECONDS
        self.stop = stop

    def report_progress(self) -> None:
        """Report progress and check timestamps, each if it is due. Raises SystemProblem if an input stream has been
        replaced by another."""
        self._inputs.check()
        now = self._clock()
        if now >= self._next:
            self._next = now + PROGRESS_SECONDS
            if self._progress is None:
                self._warn(self._totals().since(self._first_totals))
            else:
                self._progress(self._progress_at(now, "running"))
        if now >= self._next_times:
            self._next_times = now + TIMES_SECONDS
            self._times.check(*self._times_of(self._totals()))

    def finish(self) -> None:
        """Report the progress at the end."""
        if self._progress is not None:
            self._progress(self._progress_at(self._clock(), "done"))

    def _progress_at(self, now: float, phase: str) -> Progress:
        totals = self._totals()
        counts = totals.since(self._first_totals)
        self._warn(counts)
        ends = {name: input_ends(self._plan, self._admin, name) for query in self._queries for name in query.sources}
        done, planned = (
            {name: offsets for query in self._queries for name, offsets in self._end_offsets(query, kind).items()}
            for kind in (DONE, PLANNED)
        )
        self._time_batches()
        tasks = sum_of(status.tasks() for status in self.statuses.values())
        watermarks = {
            partition: mark for status in self.statuses.values() for partition, mark in status.watermarks.items()
        }
        return Progress(
            phase=phase,
            seconds=now - self._started,
            read=sum(counts.get("read", {}).values()),
            written=sum(counts.get("written", {}).values()),
            lag=sum(max(0, sum(ends[name]) - sum(done[name])) for name in ends),
            watermark=self._watermark(watermarks),
            in_flight=sum(map(sum, planned.values())) - sum(map(sum, done.values())),
            pipeline=self._plan.name,
            engine="spark",
            keyless={table: number for table, number in counts.get("keyless", {}).items() if number},
            facts=(
                *source_samples(self._plan, done, planned, ends),
                *count_samples(self._plan, counts, watermarks),
                Sample("commits", self._batches() - self._first_batches, ("", "")),
                Sample("batch_seconds", self._timing.histogram),
                Sample("uptime_seconds", now - self._started),
                *task_samples(tasks),
            ),
            batch_tasks_done=tasks.done,
            batch_tasks=tasks.all,
        )

    def _warn(self, counts: dict[str, dict[str, int]]) -> None:
        self._keyless.check([{table: number for table, number in counts.get("keyless", {}).items() if number}])

    def _watermark(self, watermarks: Mapping[str, int]) -> int | None:
        """The least watermark, of all streams that fill no table; None before there is one."""
        tables = table_streams(self._plan)
        return min((mark for name, mark in by_stream(watermarks).items() if name not in tables), default=None)

    def _time_batches(self) -> None:
        """Record the duration of each batch that was done since the last call, from its plan to its commit."""
        for query in self._queries:
            new = [number for number in batch_numbers(query.checkpoint, DONE) if number > self._timed[query.group]]
            for number in new:
                with suppress(FileNotFoundError):  # Spark removes all but the last hundred
                    began, ended = (logged_at(query.checkpoint, kind, number) for kind in (PLANNED, DONE))
                    self._timing.add(max(0.0, ended - began))
            self._timed[query.group] = max(new, default=self._timed[query.group])

    def report(self) -> Report:
        """The report of the run: what was done since its start."""
        totals = self._totals()
        self._times.finish(*self._times_of(totals))
        counts = totals.since(self._first_totals)
        self._warn(counts)
        return report_of(
            self._plan,
            counts,
            self._clock() - self._started,
            batches=self._batches() - self._first_batches,
            resumed=self._first_batches > 0,
            warnings={**self._times.warnings, **self._inputs.warnings},
        )

    def _times_of(self, totals: Counts) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """The arguments of `SuspiciousTimes`: the largest timestamp by stream, and by operator the numbers of messages
        given to it and of late ones."""
        counts = totals.since(self._first_totals)
        return latest_times(self._plan, totals.watermarks), counts.get("given", {}), counts.get("late", {})

    def _batches(self) -> int:
        """The number of batches that are done, in all runs."""
        return sum(last_batch(query.checkpoint, DONE) + 1 for query in self._queries)

    def _totals(self) -> Counts:
        totals = Counts()
        for query in self._queries:
            totals.add(self._connection.counts(query))
        return totals

    def _end_offsets(self, query: QueryPlan, kind: str) -> Offsets:
        """The end offsets of the query's last batch that is PLANNED, or DONE."""
        if not query.sources:
            return {}  # what Spark notes of DataFrames has a form that each source of theirs chooses
        lines = last_end_offsets(query.checkpoint, kind)
        return query.starts if lines is None else {**query.starts, **self._connection.offsets(lines)}
