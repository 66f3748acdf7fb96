"""From what a stage makes to rows: which level and bucket each message goes to."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ...dsl.message import Record
from ...dsl.sink import Sink
from ...planner.names import dead_letters
from ..kernel.stage import DEAD_LETTERS, StageTask
from ..kernel.times import START
from .outputs import Output
from .rows import OUTPUT, Counts, Row, Watermark, by_bucket, encode, message_blocks, messages_of
from .shipping import Cargo
from .tally import Tally


class Emitter:
    """Turns what the tasks of one stage make into rows.

    `producer` is who makes it, to those who sort it or tell time by it; `bucket` is where rows that leave the
    query lie; `output` takes what leaves it; `stack` closes the sinks that were opened.
    """

    def __init__(self, cargo: Cargo, stage: str, producer: int, bucket: int, output: Output, stack: ExitStack) -> None:
        self._cargo = cargo
        self._producer = producer
        self._bucket = bucket
        self._output = output
        self._position = 0
        plan = cargo.plan
        members = plan.stage(stage).operators
        self._streams = {id: plan.operator(id).writes[0] for id in members if plan.operator(id).writes}
        self._streams[DEAD_LETTERS] = dead_letters(plan.name)
        borders = [border for border in plan.pipeline.borders if border.id in members]
        self._borders = [border.id for border in borders]
        self._to_all = {self._streams[border.id] for border in borders if border.to_all}
        self._stack = stack
        self._open: dict[str, Sink[Any]] = {}
        self._sinks = {operator.id: operator for operator in plan.pipeline.sinks if operator.id in members}
        self.written: dict[str, int] = {}

    def take(self, task: StageTask, rows: list[Row]) -> None:
        """Add what a task has made; messages for sinks go there now."""
        for id, made in task.take():
            name = self._streams.get(id, id)
            self.written[name] = self.written.get(name, 0) + len(made)
            if id in self._sinks:
                self._sink(id, made)
            else:
                self._send(name, made, rows)

    def _send(self, stream: str, made: list[Record], rows: list[Row]) -> None:
        cargo, first = self._cargo, self._position
        self._position += len(made)
        found = messages_of(stream, self._producer, range(first, self._position), made)
        level = cargo.levels.of_stream.get(stream)
        if level is None:
            rows.extend(self._output(found, self._bucket))
        elif stream in self._to_all:
            blocks = list(message_blocks(found))
            rows.extend((level, bucket, block) for bucket in range(cargo.buckets) for block in blocks)
        else:
            rows.extend(by_bucket(level, cargo.buckets, found))

    def _sink(self, id: str, messages: list[Any]) -> None:
        if id not in self._open:
            sink = self._sinks[id].sink
            sink.open()
            self._stack.callback(sink.close)
            self._open[id] = sink
        self._open[id].write(messages)

    def flush(self) -> None:
        """Return once all that sinks were given is safe."""
        for sink in self._open.values():
            sink.flush()

    def tell(self, task: StageTask, rows: list[Row]) -> None:
        """Tell every bucket behind a border how far time has come here."""
        for id in self._borders:
            told = Watermark(self._streams[id], self._producer, task.told_watermark_of(id), task.is_idle(id))
            rows.extend(watermarks(self._cargo, told))

    def count(
        self, task: StageTask, read: dict[str, int], rows: list[Row], watermarks: Mapping[str, int] | None = None
    ) -> None:
        """Send what was counted on its way to the report."""
        given = {id: number for id, number in task.taken_in.items() if number}
        counts = {
            "read": read,
            "written": self.written,
            "given": given,
            "late": task.late,
            "failed": task.failures.counts,
            "keyless": task.keyless,
        }
        if any(counts.values()):
            rows.append((OUTPUT, self._bucket, encode(Counts(Tally(counts, dict(watermarks or {}))))))


def watermarks(cargo: Cargo, told: Watermark) -> list[Row]:
    """Rows that tell every bucket where a stream is read how far one producer has come."""
    if told.time == START and not told.idle:
        return []
    level, block = cargo.levels.of_stream[told.stream], encode(told)
    return [(level, bucket, block) for bucket in range(cargo.buckets)]
