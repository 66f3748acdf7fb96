"""Looking after queries while they run: how far they are, and what they have done."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

from ....planner.plan import Plan
from ...keyless import KeylessWarning
from ...metrics.timing import Timing
from ...preflight.input_streams import InputWatch
from ...report import OnProgress, Progress, Report, Sample
from ...suspicious_times import SuspiciousTimes
from ...systems.provisioning import table_streams
from ..counts import Tally
from ..lowering.query_plan import QueryPlan
from .checkpoint_log import DONE, PLANNED, batch_numbers, last_end_offsets, logged_at
from .connection import Connection, Offsets
from .metrics import count_facts, source_facts

PROGRESS_SECONDS = 1.0
TIMES_SECONDS = 10.0
"""Time between two looks at the times of messages."""


class QueryMonitor:
    """Tells progress about once a second, and hears the wish to stop."""

    def __init__(
        self,
        plan: Plan,
        queries: Sequence[QueryPlan],
        connection: Connection,
        started: float,
        progress: OnProgress | None,
        stop: Callable[[], bool],
        inputs: InputWatch,
    ) -> None:
        self._plan, self._queries, self._connection = plan, queries, connection
        self._admin = connection.system.admin()
        self._started, self._progress = started, progress
        self._before, self._batches_before = self._tally(), self._batches()
        self._timing = Timing()
        self._times = SuspiciousTimes(plan)
        self._inputs = inputs
        self._keyless = KeylessWarning(plan)
        self._timed = {query.group: max(batch_numbers(query.checkpoint, DONE), default=-1) for query in queries}
        self._next, self._next_times = started + PROGRESS_SECONDS, started + TIMES_SECONDS
        self.stop = stop

    def report_progress(self) -> None:
        """Tell progress, if it is time to, and what looks wrong about times. Raises SystemProblem where an input is
        another stream by now."""
        self._inputs.look()
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PROGRESS_SECONDS
            if self._progress is None:
                self._warn(self._tally().since(self._before))
            else:
                self._progress(self._look(now, "running"))
        if now >= self._next_times:
            self._next_times = now + TIMES_SECONDS
            self._times.look(*self._times_of(self._tally()))

    def finish(self) -> None:
        """Tell how it ended."""
        if self._progress is not None:
            self._progress(self._look(time.monotonic(), "done"))

    def _look(self, now: float, phase: str) -> Progress:
        tally = self._tally()
        counts = tally.since(self._before)
        self._warn(counts)
        ends = {name: self._admin.ends(name) for query in self._queries for name in query.sources}
        done, planned = (
            {name: offsets for query in self._queries for name, offsets in self._reached(query, kind).items()}
            for kind in (DONE, PLANNED)
        )
        self._time_batches()
        return Progress(
            phase=phase,
            seconds=now - self._started,
            read=sum(counts.get("read", {}).values()),
            written=sum(counts.get("written", {}).values()),
            lag=sum(max(0, sum(ends[name]) - sum(done[name])) for name in ends),
            watermark=min(self._told(tally), default=None),
            in_flight=sum(map(sum, planned.values())) - sum(map(sum, done.values())),
            pipeline=self._plan.name,
            engine="spark",
            facts=(
                *source_facts(self._plan, done, planned, ends),
                *count_facts(self._plan, counts, tally.watermarks),
                Sample("commits", self._batches() - self._batches_before, ("", "")),
                Sample("batch_seconds", self._timing.histogram),
                Sample("uptime_seconds", now - self._started),
            ),
        )

    def _warn(self, counts: dict[str, dict[str, int]]) -> None:
        self._keyless.look([{table: number for table, number in counts.get("keyless", {}).items() if number}])

    def _told(self, tally: Tally) -> Iterator[int]:
        """The watermarks of all partitions but those that fill tables."""
        tables = table_streams(self._plan)
        return (time for name, time in tally.watermarks.items() if name.rpartition("/")[0] not in tables)

    def _time_batches(self) -> None:
        """Take note of what the batches took that are done since the last look: from when they were planned."""
        for query in self._queries:
            new = [number for number in batch_numbers(query.checkpoint, DONE) if number > self._timed[query.group]]
            for number in new:
                with suppress(FileNotFoundError):  # Spark keeps the last hundred
                    began, ended = (logged_at(query.checkpoint, kind, number) for kind in (PLANNED, DONE))
                    self._timing.add(max(0.0, ended - began))
            self._timed[query.group] = max(new, default=self._timed[query.group])

    def report(self) -> Report:
        """What was done since the start."""
        tally = self._tally()
        self._times.finish(*self._times_of(tally))
        counts = tally.since(self._before)
        self._warn(counts)
        names = [stream.name for stream in self._plan.streams] + [operator.id for operator in self._plan.operators]
        order = {name: index for index, name in reversed(list(enumerate(names)))}
        read, written, late, failed, keyless = (
            {name: found[name] for name in sorted(found, key=lambda name: order.get(name, len(order))) if found[name]}
            for found in (counts.get(kind, {}) for kind in ("read", "written", "late", "failed", "keyless"))
        )
        return Report(
            pipeline=self._plan.name,
            engine="spark",
            seconds=time.monotonic() - self._started,
            read=read,
            written=written,
            late=late,
            failed=failed,
            keyless=keyless,
            checkpoints=self._batches() - self._batches_before,
            resumed=self._batches_before > 0,
            warnings={**self._times.warnings, **self._inputs.warnings},
        )

    def _times_of(self, tally: Tally) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
        """What `SuspiciousTimes` judges: the largest timestamps, messages given to operators, and late ones."""
        behind = {source.stream: source.out_of_order for source in self._plan.pipeline.sources}
        highs: dict[str, int] = {}
        for place, watermark in tally.watermarks.items():
            stream = place.rpartition("/")[0]
            if stream in behind:
                highs[stream] = max(watermark + behind[stream], highs.get(stream, watermark + behind[stream]))
        counts = tally.since(self._before)
        return highs, counts.get("given", {}), counts.get("late", {})

    def _batches(self) -> int:
        """How many batches are done, in all runs."""
        return sum(max(batch_numbers(query.checkpoint, DONE), default=-1) + 1 for query in self._queries)

    def _tally(self) -> Tally:
        found = Tally()
        for query in self._queries:
            found.add(self._connection.tally(query))
        return found

    def _reached(self, query: QueryPlan, kind: str) -> Offsets:
        """How far the sources were read in the last batch that is planned, or done."""
        told = last_end_offsets(query.checkpoint, kind)
        return query.starts if told is None else {**query.starts, **self._connection.offsets(told)}
