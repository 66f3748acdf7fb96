"""Levels behind a shuffle: the stages that keep state, run by Spark's transformWithState over key buckets.

Spark stores the state as bytes. Keys, windows, timers and watermarks are the kernel's. Every bucket runs in every
batch, since each source partition with new messages sends its watermark to all buckets.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, field

from msgspec import structs

from ...kernel.stage import StageTask
from ...kernel.state_backend import Change
from ...kernel.time.bounds import START
from ...kernel.time.idle_sources import newly_idle
from ...kernel.time.input_progress import WatermarkReport
from ...kernel.time.position import Position
from ...systems.provisioning import bootstrap_streams
from ..lowering.levels import Levels
from ..lowering.packaging import unpack
from ..lowering.shipped_plan import ShippedPlan
from ..rows import EndOfInput, Head, ProcessingTime, Row, Watermark, decode_head, decode_messages
from .error_texts import sendable_errors
from .output_router import RowRouter
from .outputs import Output, as_rows
from .stage_feeder import StageFeeder
from .state_pages import PageIndex, StateBlobs, StatePages
from .worker_process import this_process

REBUILD_ROWS = 1000
"""So many rows of joined tables are rebuilt before the cache is checked against its limit."""


@dataclass(slots=True)
class _BucketInput:
    """The blocks of one bucket in one batch.

    `messages` are (producer, first position, stream, block), in the order of each producer. A block stays packed until
    it is processed: unpacked it is several times as large. `time` is the processing time, if the batch reports it.
    """

    messages: list[tuple[int, int, str, bytes]] = field(default_factory=list)
    watermarks: list[Watermark] = field(default_factory=list)
    ended: bool = False
    time: ProcessingTime | None = None


def _bucket_input(blocks: Iterable[bytes]) -> _BucketInput:
    bucket_input = _BucketInput()
    for block in blocks:
        head = decode_head(block)
        if isinstance(head, Head):
            bucket_input.messages.append((head.producer, head.positions[0], head.stream, block))
        elif isinstance(head, Watermark):
            bucket_input.watermarks.append(head)
        elif isinstance(head, EndOfInput):
            bucket_input.ended = True
        elif isinstance(head, ProcessingTime):
            bucket_input.time = head
    # A shuffle does not preserve the order of rows.
    bucket_input.messages.sort()
    return bucket_input


def process_bucket(
    shipped: ShippedPlan,
    level: int,
    bucket: int,
    blocks: Iterable[bytes],
    blobs: StateBlobs,
    output: Output = as_rows,
) -> list[Row]:
    """Feed the blocks of one bucket at one level in one batch, and return the rows for later levels. `blobs` holds
    the bucket's state.

    The processing time comes from the batch, not from the machine: Spark may run a batch again, which must then make
    the same rows.
    """
    bundle, _ = unpack(shipped)
    bucket_input = _bucket_input(blocks)
    pages = StatePages(blobs)
    pages.reset(bundle.resets)
    rows: list[Row] = []
    changes: list[Change] = []
    with sendable_errors(bundle.plan.name), StageFeeder() as feeder, ExitStack() as stack:
        for stage in bundle.levels.stages_at(level):
            bucket_stage = _BucketStage(shipped, stage, bucket, pages, output, stack, bucket_input.time)
            bucket_stage.process(feeder, bucket_input, rows)
            changes.extend(bucket_stage.task.state.changes())
    pages.write(changes)
    return rows


class _BucketStage:
    """One stage, on one bucket, in one batch."""

    def __init__(
        self,
        shipped: ShippedPlan,
        stage: str,
        bucket: int,
        pages: StatePages,
        output: Output,
        stack: ExitStack,
        time: ProcessingTime | None,
    ) -> None:
        bundle, _ = unpack(shipped)
        self._stage, self._pages = bundle.plan.stage(stage), pages
        position = _position(pages.index, stage, bundle.levels)
        expected = {stream: bundle.levels.producers[stream] for stream in self._stage.inputs}
        empty = not pages.index.prefixes
        self.task = StageTask(
            this_process().program(shipped, stage),
            pages,
            empty=empty,
            position=position,
            producers=expected,
            keeps_at_end=bundle.keeps_at_end,
            full=self._is_full,
            hand_over=lambda operator, outputs: self._router.route(operator, outputs, self._rows),
        )
        self._rows: list[Row] = []
        self._router = RowRouter(shipped, stage, bucket, bucket, output, stack)
        self._levels, self._cache = bundle.levels, bundle.cache
        now, self._since = (START, START) if time is None else (time.time, time.since)
        self._clock = max(position.clock, now) if bundle.levels.clocked else START
        self._first = bootstrap_streams(bundle.plan)

    def process(self, feeder: StageFeeder, bucket_input: _BucketInput, rows: list[Row]) -> None:
        read: dict[str, int] = {}
        self._rows = rows
        while self.task.rebuild(REBUILD_ROWS):
            self.task.state.evict(self._cache)
        feeder.run(self.task, self.task.resume)
        feeder.run(self.task, lambda: self.task.set_clock(self._clock))
        for stream in sorted(self._stage.inputs, key=self._is_read_later):
            for producer, _, of, block in bucket_input.messages:
                if of == stream:
                    messages = decode_messages(block)
                    feeder.feed(self.task, stream, producer, messages.positions, messages.records())
                    if stream not in self._levels.forwarded:
                        read[stream] = read.get(stream, 0) + len(messages.positions)
                    self._router.route_outputs(self.task, rows)
                    self.task.state.evict(self._cache)
        feeder.run(self.task, lambda: self._report_watermarks(bucket_input))
        if bucket_input.ended:
            feeder.run(self.task, self._end)
        self._router.route_outputs(self.task, rows)
        self._router.flush()
        self._router.route_watermarks(self.task, rows)
        self._router.route_counts(self.task, read, rows)
        self._pages.index.remember(self._stage.id, self.task.position(), clocked=self._levels.clocked)

    def _is_full(self) -> bool:
        """False: what a batch changes is committed at its end. Frees the memory of state that is as it was stored."""
        self.task.state.evict(self._cache)
        return False

    def _is_read_later(self, stream: str) -> bool:
        return stream not in self._first

    def _report_watermarks(self, bucket_input: _BucketInput) -> None:
        """Report the producers' watermarks to the stage. All messages of the batch have been fed by now."""
        watermarks = [watermark for watermark in bucket_input.watermarks if watermark.stream in self._stage.inputs]
        reports = [(watermark.stream, watermark.producer, watermark.time, watermark.idle) for watermark in watermarks]
        if self._levels.clocked:
            reports += self._idle_reports({(watermark.stream, watermark.producer) for watermark in watermarks})
        self.task.inputs.report_all(reports)

    def _idle_reports(self, heard: AbstractSet[tuple[str, int]]) -> Iterator[WatermarkReport]:
        """Report the source partitions that have been silent for `idle_after`: they are idle, and their watermark
        advances with the processing time. `heard` are the producers that have sent a watermark in this batch."""
        now, inputs = self._clock, self.task.inputs
        heard_of = self._pages.index.heard.setdefault(self._stage.id, {})
        for stream in self._stage.inputs:
            since = heard_of.setdefault(stream, {})
            waits = {one: wait for one, wait in enumerate(self._levels.patience[stream]) if wait is not None}
            for producer in waits:  # the time in which no query ran does not count as silence
                since[producer] = max(since.get(producer, now), self._since)
            active = {producer for of, producer in heard if of == stream}
            for producer, passed in newly_idle(since, waits, active, now):
                yield stream, producer, inputs.idle_watermark(stream, producer, passed), True

    def _end(self) -> None:
        for stream in self._stage.inputs:
            self.task.inputs.end(stream)


def _position(index: PageIndex, stage: str, levels: Levels) -> Position:
    """The position from which a stage goes on in a bucket. A producer that may not become idle by the plan of today is
    not idle, though it was in the run before."""
    position, may_idle = index.position(stage), levels.may_idle
    return structs.replace(
        position,
        idle={stream: [one for one in idle if may_idle(stream, one)] for stream, idle in position.idle.items()},
        rested={
            stream: {producer: time for producer, time in rested.items() if may_idle(stream, producer)}
            for stream, rested in position.rested.items()
        },
    )
