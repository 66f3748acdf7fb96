"""From what a stage makes to rows: which level and bucket each message goes to."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ....dsl.message import Record
from ....dsl.sink import Sink
from ...kernel.stage import StageTask
from ...kernel.time.bounds import START
from ...output_routes import OutputRoute, OutputRoutes
from ..counts import Tally
from ..lowering.packaging import PlanBundle
from ..rows import OUTPUT, Counts, Row, Watermark, by_bucket, encode, message_blocks, messages_of
from .outputs import Output


class RowRouter:
    """Turns what the tasks of one stage make into rows.

    `producer` is who makes it, to those who sort it or tell time by it; `bucket` is where rows that leave the
    query lie; `output` takes what leaves it; `stack` closes the sinks that were opened.
    """

    def __init__(
        self, bundle: PlanBundle, stage: str, producer: int, bucket: int, output: Output, stack: ExitStack
    ) -> None:
        self._bundle = bundle
        self._producer = producer
        self._bucket = bucket
        self._output = output
        self._position = 0
        self._routes = OutputRoutes(bundle.plan, stage)
        self._stack = stack
        self._open: dict[str, Sink[Any]] = {}

    def route_outputs(self, task: StageTask, rows: list[Row]) -> None:
        """Add what a task has made; messages for sinks go there now."""
        for operator, outputs in task.drain_outputs():
            route = self._routes[operator]
            self._routes.count(route, len(outputs))
            if route.sink is not None:
                self._sink(route.name, route.sink, outputs)
            else:
                self._send(route, outputs, rows)

    def _send(self, route: OutputRoute, records: list[Record], rows: list[Row]) -> None:
        bundle, first = self._bundle, self._position
        self._position += len(records)
        messages = messages_of(route.name, self._producer, range(first, self._position), records)
        level = bundle.levels.of_stream.get(route.name)
        if level is None:
            rows.extend(self._output(messages, self._bucket))
        elif route.to_all:
            blocks = list(message_blocks(messages))
            rows.extend((level, bucket, block) for bucket in range(bundle.buckets) for block in blocks)
        else:
            rows.extend(by_bucket(level, bundle.buckets, messages))

    def _sink(self, name: str, sink: Sink[Any], messages: list[Any]) -> None:
        if name not in self._open:
            sink.open()
            self._stack.callback(sink.close)
            self._open[name] = sink
        sink.write(messages)

    def flush(self) -> None:
        """Return once all that sinks were given is safe."""
        for sink in self._open.values():
            sink.flush()

    def route_watermarks(self, task: StageTask, rows: list[Row]) -> None:
        """Tell every bucket behind a border how far time has come here."""
        for id, route in self._routes.borders.items():
            told = Watermark(
                route.name, self._producer, task.progress.reported_watermark_of(id), task.progress.is_idle(id)
            )
            rows.extend(watermarks(self._bundle, told))

    def route_counts(
        self, task: StageTask, read: dict[str, int], rows: list[Row], watermarks: Mapping[str, int] | None = None
    ) -> None:
        """Send what was counted on its way to the report."""
        given = {id: number for id, number in task.input_counts.items() if number}
        counts = {
            "read": read,
            "written": self._routes.written,
            "given": given,
            "late": task.counts.late,
            "failed": task.failures.counts,
            "keyless": task.counts.keyless,
        }
        if any(counts.values()):
            rows.append((OUTPUT, self._bucket, encode(Counts(Tally(counts, dict(watermarks or {}))))))


def watermarks(bundle: PlanBundle, told: Watermark) -> list[Row]:
    """Rows that tell every bucket where a stream is read how far one producer has come."""
    if told.time == START and not told.idle:
        return []
    level, block = bundle.levels.of_stream[told.stream], encode(told)
    return [(level, bucket, block) for bucket in range(bundle.buckets)]
