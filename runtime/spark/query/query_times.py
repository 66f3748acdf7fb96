"""The times of a query, which the driver keeps: watermarks, processing time, and when each bucket is next due.

The tasks of a batch report the watermarks of source partitions, and buckets report when they are next due. From that
the driver finds the times of the next batch, and which buckets run in it without messages. It stores what it knows
after each batch beside Spark's checkpoint. A batch that Spark runs again has the same times, or it would make other
rows.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import chain
from typing import Protocol

import msgspec

from ....dsl.operators import Source
from ....planner.plan import Plan
from ...kernel.time.bounds import END, LATEST, START
from ...kernel.time.idle_sources import newly_idle
from ...process.clock import ClockCheck
from ...systems.provisioning import bootstrap_streams
from ..batch_report import BatchReport, Due
from ..batch_times import BatchTimes, StreamTime
from ..lowering.levels import Levels
from .stage_times import StageTimes

STEP_MS = 1000
"""The processing time advances in steps of so many ms."""

_AT_ONCE: Due = (START, END)


class TimesRecord(msgspec.Struct):
    """What the driver knows after a batch, as it is stored.

    `times` are those of `batch`, the last one that was begun. By source and partition, `watermarks` has what its
    messages have reported, `idle` the watermark of each idle partition, which advances with the processing time, and
    `heard` the processing time since which it had no message. `buckets` has when each bucket with state is next due,
    by level.
    """

    version: int = 1
    batch: int = -1
    times: BatchTimes | None = None
    watermarks: dict[str, dict[int, int]] = {}
    idle: dict[str, dict[int, int]] = {}
    heard: dict[str, dict[int, int]] = {}
    buckets: dict[int, dict[int, Due]] = {}

    @property
    def after(self) -> dict[str, StreamTime]:
        """The watermarks that the last batch has brought about."""
        return {} if self.times is None else self.times.after


def first_record(levels: Levels, buckets: int, watermarks: Mapping[str, int], *, begun: bool) -> TimesRecord:
    """The record of a query that has none. One that has `begun` was run by an earlier version, which stored the
    `watermarks` of source partitions, by "stream/partition", with the counts: all its buckets may be due."""
    record = TimesRecord()
    _add_watermarks(record, watermarks)
    if begun:
        record.buckets = {level: dict.fromkeys(range(buckets), _AT_ONCE) for level in range(1, levels.count)}
    return record


class Requests(Protocol):
    """Where the driver asks for batches: see `BatchRequests`."""

    @property
    def file(self) -> str:
        """The file in which a source finds the request."""
        ...

    def request(self, since: int) -> None:
        """Ask for a batch from a processing time on, in place of what was asked for before."""
        ...


class QueryTimes:
    """The times of one query in one run.

    `save` stores the record. `wall` returns the time now, in ms since epoch; the processing time goes by it in steps of
    `step` ms. The time in which no query ran counts as silence only for a run that `catches_up`.
    """

    def __init__(
        self,
        plan: Plan,
        levels: Levels,
        record: TimesRecord,
        save: Callable[[TimesRecord], None],
        requests: Requests,
        wall: Callable[[], int],
        *,
        catches_up: bool = False,
        step: int = STEP_MS,
    ) -> None:
        self._record, self._save, self._requests = record, save, requests
        self._wall, self._step = wall, step
        self._levels, self._clocked = levels, levels.clocked
        self._stages = StageTimes(plan, levels)
        self._direct = {stream for stream in levels.of_stream if self._comes_from_level_zero(plan, stream)}
        self._first = bootstrap_streams(plan)
        sources = [source for source in plan.pipeline.sources if source.stream in levels.of_stream]
        self._sources = [source.stream for source in sources]
        self._patience = {key: wait for source in sources for key, wait in _patience(plan, source)}
        record.idle = {
            stream: {one: mark for one, mark in marks.items() if (stream, one) in self._patience}
            for stream, marks in record.idle.items()
        }
        now = self._now()
        if not catches_up:
            for of_stream in record.heard.values():
                of_stream.update({one: max(since, now) for one, since in of_stream.items()})
        # Whatever the plan of this run has changed, a bucket finds it when it runs.
        record.buckets = {level: dict.fromkeys(of_level, _AT_ONCE) for level, of_level in record.buckets.items()}
        self._clock_check = ClockCheck()
        self._run_at: dict[tuple[int, int], int] = {}
        self._moves = 0
        self._last: tuple[dict[str, StreamTime], int] = ({}, START)

    def _comes_from_level_zero(self, plan: Plan, stream: str) -> bool:
        planned = plan.stream(stream)
        if planned.kind == "source":
            return True
        return self._levels.of_stage[plan.operator(planned.written_by[0]).stage] == 0

    def _now(self) -> int:
        now = self._wall()
        return now - now % self._step

    @property
    def watermarks(self) -> dict[str, int]:
        """How far event time has come, in ms since epoch, beside what messages of sources have reported: at streams
        behind shuffles, by "stream/", and at partitions of sources that are idle, by "stream/partition"."""
        after = self._last[0] or self._record.after
        marks = {f"{name}/": mark for name, (mark, _) in after.items() if name not in self._sources}
        idle = self._record.idle.items()
        return marks | {f"{name}/{one}": mark for name, of_stream in idle for one, mark in of_stream.items()}

    def start(self) -> str:
        """Ask for a batch if buckets have state: something may have become due since the run before. Returns the file
        of the requests."""
        self._requests.request(0 if any(self._record.buckets.values()) else self._next_clock())
        return self._requests.file

    def begin(self, batch: int) -> BatchTimes:
        """The times of a batch that begins; of one that is run again, the times that it had."""
        record = self._record
        if record.times is not None and record.batch == batch:
            return record.times
        clock = START
        if self._clocked:
            clock = max(self._now(), record.times.clock if record.times else START)
            self._clock_check.check(self._now(), clock)
        after = self._advance(clock)
        due: dict[int, list[int]] = {}
        for level, bucket in self._due(after, clock):
            due.setdefault(level, []).append(bucket)
        record.batch, record.times = batch, BatchTimes(self._before(after, due), after, clock, due)
        if self._clocked or not self._direct.issuperset(after):
            self._save(record)  # neither this time of the clock comes again, nor what was due
        return record.times

    def _before(self, after: Mapping[str, StreamTime], due: Collection[int]) -> dict[str, StreamTime]:
        """The watermarks at which the messages of a batch are judged. Behind a level that is about to fire, they are
        those of the batch before: what it fires must not be late."""
        before = {}
        for name, time in after.items():
            waits = name not in self._direct and any(level < self._levels.of_stream[name] for level in due)
            if not waits:
                before[name] = time
            elif name in self._record.after:
                before[name] = self._record.after[name]
        return before

    def finish(self, batch: int, report: BatchReport) -> None:
        """Add what the tasks of a batch have reported, and ask for another batch if buckets are due."""
        record = self._record
        assert record.times is not None
        clock = record.times.clock
        _add_watermarks(record, report.counts.watermarks)
        if self._clocked:
            self._hear(report, clock)
            # Not as the next batch begins: what has come since this one began waits to be read in that.
            self._mark_idle(clock)
        for level, buckets in report.due.items():
            record.buckets.setdefault(level, {}).update(buckets)
            self._run_at.update(dict.fromkeys(((level, bucket) for bucket in buckets), self._moves))
        self._save(record)
        now_due = next(self._due(self._advance(clock), clock), None) is not None
        self._requests.request(0 if now_due else self._next_clock())

    def _hear(self, report: BatchReport, clock: int) -> None:
        """Note which partitions had messages. While bootstrap streams are read alone, the others do not count as
        silent."""
        counts = report.counts.by_kind.get("read", {})
        read = {stream for stream in self._sources if counts.get(stream)}
        waits = bool(read) and read <= self._first
        for stream, number in self._patience:
            if f"{stream}/{number}" in report.counts.watermarks or (waits and stream not in self._first):
                self._record.heard.setdefault(stream, {})[number] = clock
        for partition in report.counts.watermarks:
            stream, _, which = partition.rpartition("/")
            self._record.idle.get(stream, {}).pop(int(which), None)

    def _mark_idle(self, clock: int) -> None:
        """Mark the partitions as idle that were silent for long enough as a batch began, which had no message of
        them."""
        record = self._record
        since = {(name, one): at for name, marks in record.heard.items() for one, at in marks.items()}
        for (name, one), passed in newly_idle(since, self._patience, (), clock):
            known = record.idle.get(name, {}).get(one, record.watermarks.get(name, {}).get(one, START))
            record.idle.setdefault(name, {})[one] = START if known == START else min(known + passed, LATEST)
        for (name, one), at in since.items():
            record.heard.setdefault(name, {})[one] = at

    def _advance(self, clock: int) -> dict[str, StreamTime]:
        """The watermarks as of all reports so far."""
        record = self._record
        sources = {
            name: {one: (mark, False) for one, mark in marks.items()} for name, marks in record.watermarks.items()
        }
        for name, marks in record.idle.items():
            sources.setdefault(name, {}).update({one: (mark, True) for one, mark in marks.items()})
        after = self._stages.advance(sources, clock)
        if (after, clock) != self._last:
            self._last = after, clock
            self._moves += 1
        return after

    def _due(self, after: Mapping[str, StreamTime], clock: int) -> Iterator[tuple[int, int]]:
        """The buckets that have something due, and have not run since time last moved."""
        for level, buckets in self._record.buckets.items():
            reached = [time for name, (time, _) in after.items() if self._levels.of_stream[name] == level]
            watermark = max(reached, default=START)
            for bucket, (event, processing) in buckets.items():
                if (event <= watermark or processing <= clock) and self._run_at.get((level, bucket)) != self._moves:
                    yield level, bucket

    def _next_clock(self) -> int:
        """The next processing time at which a bucket may be due; END if none will be without messages."""
        if not self._clocked:
            return END
        buckets = list(chain.from_iterable(of_level.values() for of_level in self._record.buckets.values()))
        times = [processing for _, processing in buckets]
        if any(event < END for event, _ in buckets):
            # Event time advances by itself where it follows the clock, and where a partition is idle.
            times += [event for event, _ in buckets] if self._stages.follow_clock else []
            times += [self._heard(key) + wait for key, wait in self._patience.items()]
        return max(min(times, default=END), self._now() + self._step)

    def _heard(self, key: tuple[str, int]) -> int:
        return self._record.heard.get(key[0], {}).get(key[1], self._now())


def _patience(plan: Plan, source: Source) -> Iterator[tuple[tuple[str, int], int]]:
    if source.idle_after is not None:
        for partition in range(plan.stream(source.stream).partitions):
            yield (source.stream, partition), source.idle_after


def _add_watermarks(record: TimesRecord, watermarks: Mapping[str, int]) -> None:
    for partition, watermark in watermarks.items():
        stream, _, number = partition.rpartition("/")
        marks = record.watermarks.setdefault(stream, {})
        marks[int(number)] = max(watermark, marks.get(int(number), START))
