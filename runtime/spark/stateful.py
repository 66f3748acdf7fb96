"""Levels behind a shuffle: the stages that keep state, run by Spark's transformWithState over key buckets.

Spark keeps the bytes; keys, windows, timers and watermarks are the kernel's. Each bucket runs in every batch, since
every source partition that moves tells all of them.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from ...dsl.message import Record
from ..kernel.program import Position
from ..kernel.stage import StageTask
from ..kernel.state import Change
from .emitting import Emitter
from .feeding import Feeder
from .pages import Blobs, Pages
from .rows import DATA, ENDED, NAMES, WATERMARK, Row, columns, unpack_headers
from .shipping import Shipment, program, unpack


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

    def __init__(self, shipment: Shipment, level: int) -> None:
        self._shipment = shipment
        self._level = level

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._state = handle.getMapState("pages", "name binary", "data binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
        frames: list[pd.DataFrame] = []
        for frame in rows:
            here = frame["level"] == self._level
            if not here.all():
                yield frame[~here]
            frames.append(frame[here])
        mine = pd.concat(frames, ignore_index=True)
        made = process_bucket(self._shipment, self._level, int(key[0]), mine, _SparkBlobs(self._state))
        if made:
            yield pd.DataFrame(dict(zip(NAMES, columns(made), strict=True)))

    def close(self) -> None:
        """Nothing is held open."""


def process_bucket(shipment: Shipment, level: int, bucket: int, frame: pd.DataFrame, blobs: Blobs) -> list[Row]:
    """One bucket of one level in one batch: its rows in, the rows it makes out; state is in `blobs`."""
    cargo, _ = unpack(shipment)
    pages = Pages(blobs)
    made: list[Row] = []
    changes: list[Change] = []
    with Feeder() as feeder:
        for stage in cargo.levels.stages_at(level):
            at_work = _StageAtWork(shipment, stage, bucket, pages)
            at_work.process(feeder, frame, made)
            changes.extend(at_work.task.changes())
    pages.write(changes)
    return made


class _StageAtWork:
    """One stage, on one bucket, in one batch."""

    def __init__(self, shipment: Shipment, stage: str, bucket: int, pages: Pages) -> None:
        cargo, _ = unpack(shipment)
        self._stage, self._pages = cargo.plan.stage(stage), pages
        told = {stream: dict(found) for stream, found in pages.index.producers.get(stage, {}).items()}
        expected = {stream: cargo.levels.producers[stream] for stream in self._stage.inputs}
        position = Position(producers=told)
        empty = not pages.index.shelves
        self.task = StageTask(program(shipment, stage), pages, empty=empty, position=position, producers=expected)
        self._emitter = Emitter(cargo, stage, bucket, bucket)

    def process(self, feeder: Feeder, frame: pd.DataFrame, made: list[Row]) -> None:
        read: dict[str, int] = {}
        for stream in self._stage.inputs:
            mine = frame[frame["stream"] == stream]
            for producer, positions, records in _runs(mine[mine["kind"] == DATA]):
                feeder.feed(self.task, stream, producer, positions, records)
                read[stream] = read.get(stream, 0) + len(records)
        feeder.run(self.task, lambda: self._tell(frame))
        if bool((frame["kind"] == ENDED).any()):
            feeder.run(self.task, self._end)
        self._emitter.take(self.task, made)
        self._emitter.tell(self.task, made)
        self._emitter.count(self.task, read, made)
        self._pages.index.producers[self._stage.id] = self.task.position().producers

    def _tell(self, frame: pd.DataFrame) -> None:
        """Take in how far the producers have come, the slowest first, as no message of this batch is left to come."""
        told = frame[(frame["kind"] == WATERMARK) & frame["stream"].isin(self._stage.inputs)]
        for stream, producer, watermark in zip(told["stream"], told["producer"], told["timestamp"], strict=True):
            self.task.inputs.tell(stream, int(producer), int(watermark))

    def _end(self) -> None:
        for stream in self._stage.inputs:
            self.task.inputs.end(stream)


def _runs(frame: pd.DataFrame) -> Iterator[tuple[int, list[int], list[Record]]]:
    """Messages by producer, each producer's in its order: a shuffle keeps none."""
    if frame.empty:
        return
    producers, positions = frame["producer"].to_numpy(), frame["position"].to_numpy()
    order = np.lexsort((positions, producers))
    fields = [frame[name].to_numpy()[order].tolist() for name in ("producer", "position", "key", "value", "timestamp")]
    headers = frame["headers"].to_numpy()[order].tolist()
    starts = [0, *(np.flatnonzero(np.diff(producers[order])) + 1).tolist(), len(order)]
    for start, stop in pairwise(starts):
        _, at, keys, values, times = (field[start:stop] for field in fields)
        heads = map(unpack_headers, headers[start:stop])
        yield fields[0][start], at, list(zip(map(_bytes, keys), map(_bytes, values), times, heads, strict=True))


def _bytes(data: Any) -> bytes | None:
    return data if data is None or type(data) is bytes else bytes(data)
