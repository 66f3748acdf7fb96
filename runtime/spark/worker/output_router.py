"""Routing of a stage's outputs: which level and bucket each message goes to, as a row."""

from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from ....dsl.message import Record
from ...kernel.stage import StageTask
from ...kernel.time.bounds import START
from ...output_routes import MOST_IN_SINKS, OutputRoute, OutputRoutes, ToldSink
from ..counts import Counts
from ..lowering.packaging import PlanBundle, unpack
from ..lowering.shipped_plan import ShippedPlan
from ..rows import OUTPUT, Row, TaskCounts, Watermark, by_bucket, encode, message_blocks, messages_of
from .outputs import Output
from .worker_process import this_process


class RowRouter:
    """Turns the outputs of one stage's task into rows.

    `producer` is the number under which readers sort the messages and track the watermark. `bucket` is the address of
    rows that leave the query. `output` takes the messages that leave it. Sinks stay open for the next task; `stack`
    closes those that it was given where this one fails.
    """

    def __init__(
        self, shipped: ShippedPlan, stage: str, producer: int, bucket: int, output: Output, stack: ExitStack
    ) -> None:
        self._shipped = shipped
        self._bundle, _ = unpack(shipped)
        self._producer = producer
        self._bucket = bucket
        self._output = output
        self._position = 0
        self._routes = OutputRoutes(self._bundle.plan, stage)
        self._used: dict[str, ToldSink] = {}
        stack.push(self._left)
        self._in_sinks = 0

    def route_outputs(self, task: StageTask, rows: list[Row]) -> None:
        """Add the task's outputs to `rows`."""
        for operator, outputs in task.drain_outputs():
            self.route(operator, outputs, rows)

    def route(self, operator: str, outputs: list[Any], rows: list[Row]) -> None:
        """Add an operator's outputs to `rows`. Messages for a sink are written to the sink at once."""
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

    def _sink(self, name: str, sink: ToldSink, messages: list[Any]) -> None:
        if name not in self._used:
            this_process().open_sink(self._shipped, sink)
            self._used[name] = sink
        sink.write(messages)
        self._in_sinks += len(messages)
        if self._in_sinks >= MOST_IN_SINKS:
            self.flush()

    def flush(self) -> None:
        """Flush the sinks: all messages written to them are then durable."""
        for sink in self._used.values():
            sink.flush()
        self._in_sinks = 0

    def _left(self, _: object, error: BaseException | None, __: object) -> None:
        for sink in self._used.values() if error is not None else ():
            this_process().drop_sink(self._shipped, sink)

    def route_watermarks(self, task: StageTask, rows: list[Row]) -> None:
        """Send the task's watermark to every bucket that reads from one of its borders."""
        for id, route in self._routes.borders.items():
            watermark = Watermark(
                route.name, self._producer, task.progress.reported_watermark_of(id), task.progress.is_idle(id)
            )
            rows.extend(watermark_rows(self._bundle, watermark))

    def route_counts(
        self, task: StageTask, read: dict[str, int], rows: list[Row], watermarks: Mapping[str, int] | None = None
    ) -> None:
        """Add the task's counts, as a row that travels to the sink and from there to the report."""
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
            rows.append((OUTPUT, self._bucket, encode(TaskCounts(Counts(counts, dict(watermarks or {}))))))


def watermark_rows(bundle: PlanBundle, watermark: Watermark) -> list[Row]:
    """The rows that bring one producer's watermark to every bucket of the level that reads its stream."""
    if watermark.time == START and not watermark.idle:
        return []
    level, block = bundle.levels.of_stream[watermark.stream], encode(watermark)
    return [(level, bucket, block) for bucket in range(bundle.buckets)]
