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
from ..lowering.packaging import Shipment, program, unpack
from ..rows import NAMES, Ended, Head, Row, Tick, Watermark, decode_head, decode_messages
from .output_router import Emitter
from .outputs import Output, Outputs, as_rows
from .stage_feeder import Feeder
from .state_pages import Blobs, Index, Pages

if TYPE_CHECKING:
    import pandas as pd


PIECE = 1000
"""Rows of joined tables that are made anew before memory is looked at."""


class _SparkBlobs:
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

    def __init__(self, shipment: Shipment, level: int, outputs: Outputs) -> None:
        self._shipment = shipment
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
            made = process_bucket(self._shipment, self._level, int(key[0]), mine, _SparkBlobs(self._state), output)
        if made:
            yield pd.DataFrame(made, columns=list(NAMES))

    def close(self) -> None:
        """Nothing is held open."""


@dataclass(slots=True)
class _Inbox:
    """The blocks of one bucket in one batch. Messages stay packed until their turn: unpacked they are several times as
    large. `messages` are (producer, first position, stream, block), each producer's in its order. `tick` is the last
    that was told of time, if anything was."""

    messages: list[tuple[int, int, str, bytes]] = field(default_factory=list)
    watermarks: list[Watermark] = field(default_factory=list)
    ended: bool = False
    tick: Tick | None = None


def _inbox(blocks: Iterable[bytes]) -> _Inbox:
    inbox = _Inbox()
    for block in blocks:
        head = decode_head(block)
        if isinstance(head, Head):
            inbox.messages.append((head.producer, head.positions[0], head.stream, block))
        elif isinstance(head, Watermark):
            inbox.watermarks.append(head)
        elif isinstance(head, Ended):
            inbox.ended = True
        elif isinstance(head, Tick):
            inbox.tick = head
    # A shuffle keeps no order.
    inbox.messages.sort()
    return inbox


def process_bucket(
    shipment: Shipment,
    level: int,
    bucket: int,
    blocks: Iterable[bytes],
    blobs: Blobs,
    output: Output = as_rows,
) -> list[Row]:
    """One bucket of one level in one batch: its blocks in, the rows it makes out; state is in `blobs`. The time is the
    one that the batch tells, whenever it runs: Spark may run it again, and only what it made first is published."""
    cargo, _ = unpack(shipment)
    inbox = _inbox(blocks)
    pages = Pages(blobs)
    pages.reset(cargo.resets)
    made: list[Row] = []
    changes: list[Change] = []
    with Feeder() as feeder, ExitStack() as stack:
        for stage in cargo.levels.stages_at(level):
            at_work = _StageAtWork(shipment, stage, bucket, pages, output, stack, inbox.tick)
            at_work.process(feeder, inbox, made)
            changes.extend(at_work.task.changes())
    pages.write(changes)
    return made


class _StageAtWork:
    """One stage, on one bucket, in one batch."""

    def __init__(
        self,
        shipment: Shipment,
        stage: str,
        bucket: int,
        pages: Pages,
        output: Output,
        stack: ExitStack,
        tick: Tick | None,
    ) -> None:
        cargo, _ = unpack(shipment)
        self._stage, self._pages = cargo.plan.stage(stage), pages
        position = _position(pages.index, stage, cargo.levels)
        expected = {stream: cargo.levels.producers[stream] for stream in self._stage.inputs}
        empty = not pages.index.shelves
        self.task = StageTask(program(shipment, stage), pages, empty=empty, position=position, producers=expected)
        self._emitter = Emitter(cargo, stage, bucket, bucket, output, stack)
        self._levels, self._cache = cargo.levels, cargo.cache
        now, self._since = (START, START) if tick is None else (tick.time, tick.since)
        self._clock = max(position.clock, now) if cargo.levels.clocked else START
        self._first = bootstrap_streams(cargo.plan)

    def process(self, feeder: Feeder, inbox: _Inbox, made: list[Row]) -> None:
        read: dict[str, int] = {}
        while self.task.rebuild(PIECE):
            self.task.evict(self._cache)
        feeder.run(self.task, self.task.resume)
        feeder.run(self.task, lambda: self.task.tell_clock(self._clock))
        for stream in sorted(self._stage.inputs, key=self._comes_later):
            for producer, _, of, block in inbox.messages:
                if of == stream:
                    found = decode_messages(block)
                    feeder.feed(self.task, stream, producer, found.positions, found.records())
                    if stream not in self._levels.forwarded:
                        read[stream] = read.get(stream, 0) + len(found.positions)
                    self._emitter.take(self.task, made)
                    self.task.evict(self._cache)
        feeder.run(self.task, lambda: self._tell(inbox))
        if inbox.ended:
            feeder.run(self.task, self._end)
        self._emitter.take(self.task, made)
        self._emitter.flush()
        self._emitter.tell(self.task, made)
        self._emitter.count(self.task, read, made)
        self._pages.index.remember(self._stage.id, self.task.position(), clocked=self._levels.clocked)

    def _comes_later(self, stream: str) -> bool:
        return stream not in self._first

    def _tell(self, inbox: _Inbox) -> None:
        """Take in how far the producers have come, now that no message of this batch is left to come."""
        found = [told for told in inbox.watermarks if told.stream in self._stage.inputs]
        reports = [(told.stream, told.producer, told.time, told.idle) for told in found]
        if self._levels.clocked:
            reports += self._rest({(told.stream, told.producer) for told in found})
        self.task.inputs.tell_all(reports)

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
                yield stream, producer, inputs.gone_on(stream, producer, passed), True

    def _end(self) -> None:
        for stream in self._stage.inputs:
            self.task.inputs.end(stream)


def _position(index: Index, stage: str, levels: Levels) -> Position:
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
