"""Levels behind a shuffle: the stages that keep state, run by Spark's transformWithState over key buckets.

Spark keeps the bytes; keys, windows, timers and watermarks are the kernel's. Each bucket runs in every batch, since
every source partition that moves tells all of them.
"""

from collections.abc import Iterable, Iterator, Set
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ...kernel.stage import StageTask
from ...kernel.state_cache import Change
from ...kernel.time.bounds import START
from ...kernel.time.idle_sources import newly_idle
from ...kernel.time.input_progress import Report
from ...kernel.time.position import Position
from ...systems.provisioning import bootstrap_streams
from ..lowering.levels import Levels
from ..lowering.packaging import ShippedPlan, program, unpack
from ..rows import NAMES, EndOfInput, Head, ProcessingTime, Row, Watermark, decode_head, decode_messages
from .output_router import RowRouter
from .outputs import Output, Outputs, as_rows
from .stage_feeder import StageFeeder
from .state_pages import PageIndex, StateBlobs, StatePages

if TYPE_CHECKING:
    import pandas as pd


REBUILD_ROWS = 1000
"""Rows of joined tables that are made anew before memory is looked at."""


class _MapStateBlobs:
    """Spark's map state as bytes by name."""

    def __init__(self, state: Any) -> None:
        self._state = state

    def get(self, name: bytes) -> bytes | None:
        found = self._state.getValue((name,))
        return None if found is None else bytes(found[0])

    def put(self, name: bytes, data: bytes) -> None:
        self._state.updateValue((name,), (data,))

    def remove(self, name: bytes) -> None:
        self._state.removeKey((name,))


class LevelProcessor(StatefulProcessor):
    """One level of a query: its rows are processed, those for later levels are passed on."""

    def __init__(self, shipped: ShippedPlan, level: int, outputs: Outputs) -> None:
        self._shipped = shipped
        self._level = level
        self._outputs = outputs

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("pages", "name binary", "data binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> "Iterator[pd.DataFrame]":
        import pandas as pd  # noqa: PLC0415 - Spark starts processes in each batch that only look at this class

        mine: list[bytes] = []
        for frame in rows:
            here = frame["level"] == self._level
            if not here.all():
                yield frame[~here]
            mine.extend(frame["block"][here])
        with self._outputs() as output:
            made = process_bucket(self._shipped, self._level, int(key[0]), mine, _MapStateBlobs(self._state), output)
        if made:
            yield pd.DataFrame(made, columns=list(NAMES))

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(slots=True)
class _BucketInput:
    """The blocks of one bucket in one batch. Messages stay packed until their turn: unpacked they are several times as
    large. `messages` are (producer, first position, stream, block), each producer's in its order. `tick` is the last
    that was told of time, if anything was."""

    messages: list[tuple[int, int, str, bytes]] = field(default_factory=list)
    watermarks: list[Watermark] = field(default_factory=list)
    ended: bool = False
    tick: ProcessingTime | None = None


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
            bucket_input.tick = head
    # A shuffle keeps no order.
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
    """One bucket of one level in one batch: its blocks in, the rows it makes out; state is in `blobs`. The time is the
    one that the batch tells, whenever it runs: Spark may run it again, and only what it made first is published."""
    bundle, _ = unpack(shipped)
    bucket_input = _bucket_input(blocks)
    pages = StatePages(blobs)
    pages.reset(bundle.resets)
    made: list[Row] = []
    changes: list[Change] = []
    with StageFeeder() as feeder, ExitStack() as stack:
        for stage in bundle.levels.stages_at(level):
            bucket_stage = _BucketStage(shipped, stage, bucket, pages, output, stack, bucket_input.tick)
            bucket_stage.process(feeder, bucket_input, made)
            changes.extend(bucket_stage.task.state.changes())
    pages.write(changes)
    return made


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
        tick: ProcessingTime | None,
    ) -> None:
        bundle, _ = unpack(shipped)
        self._stage, self._pages = bundle.plan.stage(stage), pages
        position = _position(pages.index, stage, bundle.levels)
        expected = {stream: bundle.levels.producers[stream] for stream in self._stage.inputs}
        empty = not pages.index.prefixes
        self.task = StageTask(program(shipped, stage), pages, empty=empty, position=position, producers=expected)
        self._router = RowRouter(bundle, stage, bucket, bucket, output, stack)
        self._levels, self._cache = bundle.levels, bundle.cache
        now, self._since = (START, START) if tick is None else (tick.time, tick.since)
        self._clock = max(position.clock, now) if bundle.levels.clocked else START
        self._first = bootstrap_streams(bundle.plan)

    def process(self, feeder: StageFeeder, bucket_input: _BucketInput, made: list[Row]) -> None:
        read: dict[str, int] = {}
        while self.task.rebuild(REBUILD_ROWS):
            self.task.state.evict(self._cache)
        feeder.run(self.task, self.task.resume)
        feeder.run(self.task, lambda: self.task.set_clock(self._clock))
        for stream in sorted(self._stage.inputs, key=self._comes_later):
            for producer, _, of, block in bucket_input.messages:
                if of == stream:
                    found = decode_messages(block)
                    feeder.feed(self.task, stream, producer, found.positions, found.records())
                    if stream not in self._levels.forwarded:
                        read[stream] = read.get(stream, 0) + len(found.positions)
                    self._router.route_outputs(self.task, made)
                    self.task.state.evict(self._cache)
        feeder.run(self.task, lambda: self._tell(bucket_input))
        if bucket_input.ended:
            feeder.run(self.task, self._end)
        self._router.route_outputs(self.task, made)
        self._router.flush()
        self._router.route_watermarks(self.task, made)
        self._router.route_counts(self.task, read, made)
        self._pages.index.remember(self._stage.id, self.task.position(), clocked=self._levels.clocked)

    def _comes_later(self, stream: str) -> bool:
        return stream not in self._first

    def _tell(self, bucket_input: _BucketInput) -> None:
        """Take in how far the producers have come, now that no message of this batch is left to come."""
        found = [told for told in bucket_input.watermarks if told.stream in self._stage.inputs]
        reports = [(told.stream, told.producer, told.time, told.idle) for told in found]
        if self._levels.clocked:
            reports += self._rest({(told.stream, told.producer) for told in found})
        self.task.inputs.report_all(reports)

    def _rest(self, heard: Set[tuple[str, int]]) -> Iterator[Report]:
        """Sources that were not heard of for long enough are idle, and their time goes on with the clock."""
        now, inputs = self._clock, self.task.inputs
        heard_of = self._pages.index.heard.setdefault(self._stage.id, {})
        for stream in self._stage.inputs:
            since = heard_of.setdefault(stream, {})
            waits = {one: wait for one, wait in enumerate(self._levels.patience[stream]) if wait is not None}
            for producer in waits:  # while nothing ran, nothing was quiet
                since[producer] = max(since.get(producer, now), self._since)
            active = {producer for of, producer in heard if of == stream}
            for producer, passed in newly_idle(since, waits, active, now):
                yield stream, producer, inputs.idle_watermark(stream, producer, passed), True

    def _end(self) -> None:
        for stream in self._stage.inputs:
            self.task.inputs.end(stream)


def _position(index: PageIndex, stage: str, levels: Levels) -> Position:
    """Where a stage goes on in a bucket. Producers that are not to be left out any more are not idle."""
    position, may_idle = index.position(stage), levels.may_idle
    return replace(
        position,
        idle={stream: [one for one in idle if may_idle(stream, one)] for stream, idle in position.idle.items()},
        rested={
            stream: {producer: time for producer, time in rested.items() if may_idle(stream, producer)}
            for stream, rested in position.rested.items()
        },
    )
