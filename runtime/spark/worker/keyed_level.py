"""Levels behind a shuffle: the stages that keep state, run by Spark's transformWithState over key buckets.

Spark stores the state as bytes. Keys, windows, timers and watermarks are the kernel's. A bucket runs in a batch if it
has messages, or something due: the driver knows from the bucket's last report when that is.
"""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from ....planner.task_assignment import StageTasks
from ...kernel.code.source_code import ReadTimes, times_reader
from ...kernel.stage import StageTask
from ...kernel.state_backend import Change
from ...kernel.task_options import TaskOptions
from ...kernel.time.bounds import END
from ...process.gc_tuning import reduced_gc
from ...systems.provisioning import bootstrap_streams
from ..batch_report import BatchReport, Due
from ..batch_times import BatchTimes, StreamTime
from ..counts import Counts
from ..lowering.packaging import unpack
from ..lowering.shipped_plan import ShippedPlan
from ..rows import Messages, Row
from .by_time import sorted_by_time
from .error_texts import sendable_errors
from .inbox import Inbox
from .output_router import RowRouter
from .outputs import Outputs, RowOutputs, report_row
from .page_deltas import Blobs
from .stage_feeder import StageFeeder
from .state_pages import StatePages
from .task_sinks import TaskSinks
from .worker_process import this_process

# With more, a table that does not fit its cache would be in memory as a whole for a moment.
REBUILD_ROWS = 1000
"""So many rows of joined tables are rebuilt before the cache is checked against its limit."""


# With more, one busy bucket would fill the memory of a worker; with less, each crossing to Java carries little.
ROW_BYTES = 16 << 20
"""At about so many bytes of rows, those of a bucket leave."""


class LevelTask:
    """One level of a query in one task of Spark's, which processes the buckets that have something to do.

    `times` are those of the batch. They come from there, not from the machine: Spark may run a batch again, which must
    then make the same rows. `label` is the address of rows that leave the query. What buckets write out is durable once
    the context closes without an error.
    """

    def __init__(
        self, shipped: ShippedPlan, level: int, times: BatchTimes, label: int, outputs: Outputs | None = None
    ) -> None:
        self._shipped, self._level, self._times, self._label = shipped, level, times, label
        self._bundle, _ = unpack(shipped)
        self._stack = ExitStack()
        self._output = self._stack.enter_context((outputs or RowOutputs())())
        self._sinks = TaskSinks(shipped, self._stack)
        self._stack.enter_context(reduced_gc())  # the last one: if another fails, nothing is left as it is set here

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stack.__exit__(type_, error, trace)
            return
        with sendable_errors(self._bundle.plan.name), self._stack:
            self._sinks.flush()

    def process(self, bucket: int, inbox: Inbox, blobs: Blobs, times: BatchTimes | None = None) -> Iterator[list[Row]]:
        """Feed the messages of one bucket, and yield the rows for later levels, as they come. `blobs` holds the
        bucket's state. With `times` the bucket has others than the task."""
        bundle = self._bundle
        pages = StatePages(blobs)
        if not inbox.has_messages and pages.empty:
            return  # the end of input comes to all buckets
        pages.index.convert(bundle.levels.producers)
        # Before any stage looks for its state.
        pages.reset(bundle.resets)
        changes: list[Change] = []
        report, due = BatchReport(), (END, END)
        with sendable_errors(bundle.plan.name), StageFeeder() as feeder:
            for stage in bundle.levels.stages_at(self._level):
                router = RowRouter(self._shipped, stage, bucket, self._label, self._output, self._sinks)
                bucket_stage = _BucketStage(self._shipped, stage, pages, router, times or self._times)
                yield from bucket_stage.process(feeder, inbox)
                report.counts.add(Counts(bucket_stage.counts()))
                due = _sooner(due, bucket_stage.task.progress.next_due())
                changes.extend(bucket_stage.task.state.changes())
        report.due[self._level] = {bucket: due}
        # For all stages at once: each write ends with that of the whole index.
        pages.write(changes)
        yield [report_row(self._label, report)]


def _sooner(one: Due, other: Due) -> Due:
    return min(one[0], other[0]), min(one[1], other[1])


class _BucketStage:
    """One stage, on one bucket, in one batch."""

    def __init__(
        self,
        shipped: ShippedPlan,
        stage: str,
        pages: StatePages,
        router: RowRouter,
        times: BatchTimes,
    ) -> None:
        bundle, _ = unpack(shipped)
        self._stage, self._pages, self._times = bundle.plan.stage(stage), pages, times
        self.task = StageTask(
            this_process().program(shipped, stage),
            pages,
            empty=not pages.index.prefixes,
            position=pages.index.position(stage),
            options=TaskOptions(
                producers=dict.fromkeys(self._stage.inputs, StageTasks(1)),
                keeps_at_end=bundle.keeps_at_end,
                full=self._is_full,
                hand_over=lambda operator, outputs: self._router.route(operator, outputs, self._rows),
            ),
        )
        self._rows: list[Row] = []
        self._read: dict[str, int] = {}
        self._router = router
        self._levels, self._cache = bundle.levels, bundle.cache
        self._first = bootstrap_streams(bundle.plan)
        self._by_time, self._sources = bundle.by_time, bundle.plan.pipeline.sources

    def process(self, feeder: StageFeeder, inbox: Inbox) -> Iterator[list[Row]]:
        """Fire what is due, process the messages, and yield the rows that this makes."""
        task, times = self.task, self._times
        while task.rebuild(REBUILD_ROWS):
            task.state.evict(self._cache)
        feeder.run(task, task.resume)
        # Time first: what was due before the messages of this batch fires without them, as on the local engine.
        feeder.run(task, lambda: task.set_clock(times.clock))
        feeder.run(task, lambda: self._set_watermarks(times.before))
        counted = size = 0
        for stream in sorted(self._stage.inputs, key=self._is_read_later):
            for messages in self._messages(stream, inbox):
                feeder.feed(task, stream, messages.producer, messages.positions, messages.records())
                if stream not in self._levels.forwarded:
                    self._read[stream] = self._read.get(stream, 0) + len(messages.positions)
                self._router.route_outputs(task, self._rows)
                task.state.evict(self._cache)
                size += sum(len(block) for _, _, block in self._rows[counted:])
                counted = len(self._rows)
                if size >= ROW_BYTES:
                    yield self._taken()
                    counted = size = 0
        # Behind the messages: this batch has made time move so far, and none of its own is late by that.
        feeder.run(task, lambda: self._set_watermarks(times.after))
        if inbox.ended:
            feeder.run(task, self._end)
        self._router.route_outputs(task, self._rows)
        self._pages.index.remember(self._stage.id, task.position(), clocked=self._levels.clocked)
        yield self._taken()

    def counts(self) -> dict[str, dict[str, int]]:
        """What was counted."""
        return self._router.counts(self.task, self._read)

    def _taken(self) -> list[Row]:
        rows, self._rows = self._rows, []
        return rows

    def _messages(self, stream: str, inbox: Inbox) -> Iterator[Messages]:
        """The messages of a stream in the order in which they are processed."""
        messages = inbox.messages(stream)
        return sorted_by_time(messages, self._read_times(stream)) if stream in self._by_time else messages

    def _read_times(self, stream: str) -> ReadTimes | None:
        """What finds the time of a source's messages at this level; None if level 0 has found it."""
        sources = self._sources if stream in self._levels.forwarded else ()
        return next((times_reader(source) for source in sources if source.stream == stream), None)

    def _is_full(self) -> bool:
        """False: what a batch changes is committed at its end. Frees the memory of state that is as it was stored."""
        self.task.state.evict(self._cache)
        return False

    def _is_read_later(self, stream: str) -> bool:
        return stream not in self._first

    def _set_watermarks(self, watermarks: Mapping[str, StreamTime]) -> None:
        self.task.inputs.set_all({name: watermarks[name] for name in self._stage.inputs if name in watermarks})

    def _end(self) -> None:
        for stream in self._stage.inputs:
            self.task.inputs.ends.end(stream)
