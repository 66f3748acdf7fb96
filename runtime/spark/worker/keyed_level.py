"""Levels behind a shuffle: the stages that keep state, run by Spark's transformWithState over key buckets.

Spark stores the state as bytes. Keys, windows, timers and watermarks are the kernel's. A bucket runs in a batch if it
has messages, or something due: the driver knows from the bucket's last report when that is.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from ...kernel.code.source_code import ReadTimes, times_reader
from ...kernel.stage import StageTask
from ...kernel.state_backend import Change
from ...kernel.time.bounds import END
from ...process.gc_tuning import reduced_gc
from ...systems.provisioning import bootstrap_streams
from ..batch_report import BatchReport, Due
from ..batch_times import BatchTimes, StreamTime
from ..counts import Counts
from ..lowering.packaging import unpack
from ..lowering.shipped_plan import ShippedPlan
from ..rows import EndOfInput, Head, Messages, Row, decode_head, decode_messages
from .by_time import sorted_by_time
from .error_texts import sendable_errors
from .output_router import RowRouter
from .outputs import Outputs, RowOutputs, report_row
from .page_deltas import Blobs
from .stage_feeder import StageFeeder
from .state_pages import StatePages
from .task_sinks import TaskSinks
from .worker_process import this_process

REBUILD_ROWS = 1000
"""So many rows of joined tables are rebuilt before the cache is checked against its limit."""


@dataclass(slots=True)
class _BucketInput:
    """The blocks of one bucket in one batch.

    `messages` are (producer, first position, stream, block), in the order of each producer. A block stays packed until
    it is processed: unpacked it is several times as large.
    """

    messages: list[tuple[int, int, str, bytes]] = field(default_factory=list)
    ended: bool = False


def _bucket_input(blocks: Iterable[bytes]) -> _BucketInput:
    bucket_input = _BucketInput()
    for block in blocks:
        head = decode_head(block)
        if isinstance(head, Head):
            bucket_input.messages.append((head.producer, head.positions[0], head.stream, block))
        elif isinstance(head, EndOfInput):
            bucket_input.ended = True
    # A shuffle does not preserve the order of rows.
    bucket_input.messages.sort()
    return bucket_input


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
        self._stack.enter_context(reduced_gc())
        self._output = self._stack.enter_context((outputs or RowOutputs())())
        self._sinks = TaskSinks(shipped, self._stack)

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

    def process(self, bucket: int, blocks: Iterable[bytes], blobs: Blobs, times: BatchTimes | None = None) -> list[Row]:
        """Feed the blocks of one bucket, and return the rows for later levels. `blobs` holds the bucket's state. With
        `times` the bucket has others than the task."""
        bundle, bucket_input = self._bundle, _bucket_input(blocks)
        pages = StatePages(blobs)
        if not bucket_input.messages and pages.empty:
            return []  # the end of input comes to all buckets
        pages.index.convert(bundle.levels.producers)
        pages.reset(bundle.resets)
        rows: list[Row] = []
        changes: list[Change] = []
        report, due = BatchReport(), (END, END)
        with sendable_errors(bundle.plan.name), StageFeeder() as feeder:
            for stage in bundle.levels.stages_at(self._level):
                router = RowRouter(self._shipped, stage, bucket, self._label, self._output, self._sinks)
                bucket_stage = _BucketStage(self._shipped, stage, pages, router, times or self._times)
                report.counts.add(Counts(bucket_stage.process(feeder, bucket_input, rows)))
                due = _sooner(due, bucket_stage.task.progress.next_due())
                changes.extend(bucket_stage.task.state.changes())
        report.due[self._level] = {bucket: due}
        rows.append(report_row(self._label, report))
        pages.write(changes)
        return rows


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
            producers=dict.fromkeys(self._stage.inputs, 1),
            keeps_at_end=bundle.keeps_at_end,
            full=self._is_full,
            hand_over=lambda operator, outputs: self._router.route(operator, outputs, self._rows),
        )
        self._rows: list[Row] = []
        self._router = router
        self._levels, self._cache = bundle.levels, bundle.cache
        self._first = bootstrap_streams(bundle.plan)
        self._by_time, self._sources = bundle.by_time, bundle.plan.pipeline.sources

    def process(self, feeder: StageFeeder, bucket_input: _BucketInput, rows: list[Row]) -> dict[str, dict[str, int]]:
        """Fire what is due, and process the messages. Returns what was counted."""
        task, times = self.task, self._times
        read: dict[str, int] = {}
        self._rows = rows
        while task.rebuild(REBUILD_ROWS):
            task.state.evict(self._cache)
        feeder.run(task, task.resume)
        feeder.run(task, lambda: task.set_clock(times.clock))
        feeder.run(task, lambda: self._set_watermarks(times.before))
        for stream in sorted(self._stage.inputs, key=self._is_read_later):
            for messages in self._messages(stream, bucket_input):
                feeder.feed(task, stream, messages.producer, messages.positions, messages.records())
                if stream not in self._levels.forwarded:
                    read[stream] = read.get(stream, 0) + len(messages.positions)
                self._router.route_outputs(task, rows)
                task.state.evict(self._cache)
        feeder.run(task, lambda: self._set_watermarks(times.after))
        if bucket_input.ended:
            feeder.run(task, self._end)
        self._router.route_outputs(task, rows)
        self._pages.index.remember(self._stage.id, task.position(), clocked=self._levels.clocked)
        return self._router.counts(task, read)

    def _messages(self, stream: str, bucket_input: _BucketInput) -> Iterator[Messages]:
        """The messages of a stream in the order in which they are processed."""
        messages = (decode_messages(block) for _, _, of, block in bucket_input.messages if of == stream)
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
            self.task.inputs.end(stream)
