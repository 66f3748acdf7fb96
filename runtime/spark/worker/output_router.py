"""Routing of a stage's outputs: which level and bucket each message goes to, as a row."""

from typing import Any

from ....dsl.message import Record
from ...kernel.stage import StageTask
from ...output_routes import OutputRoute, OutputRoutes
from ..lowering.packaging import unpack
from ..lowering.shipped_plan import ShippedPlan
from ..rows import Row, by_bucket, for_all, message_blocks, messages_of
from .outputs import Output, frame_rows
from .task_sinks import TaskSinks


class RowRouter:
    """Turns the outputs of one stage's task into rows.

    `producer` is the number under which readers sort the messages. `label` is the address of rows that leave the query.
    `output` takes the messages that leave it, and `sinks` those for sinks. The `first` message has this position.
    """

    def __init__(
        self,
        shipped: ShippedPlan,
        stage: str,
        producer: int,
        label: int,
        output: Output,
        sinks: TaskSinks,
        first: int = 0,
    ) -> None:
        self._bundle, _ = unpack(shipped)
        self._producer, self._label = producer, label
        self._output, self._sinks = output, sinks
        self._position = first
        self._routes = OutputRoutes(self._bundle.plan, stage)
        # 0 is level 0, where it forwards messages.
        self._stage = 1 + [planned.id for planned in self._bundle.plan.stages].index(stage)

    def route_outputs(self, task: StageTask, rows: list[Row]) -> None:
        """Add the task's outputs to `rows`."""
        for operator, outputs in task.drain_outputs():
            self.route(operator, outputs, rows)

    def route(self, operator: str, outputs: list[Any], rows: list[Row]) -> None:
        """Add an operator's outputs to `rows`. Messages for a sink are written to the sink at once."""
        route = self._routes[operator]
        self._routes.count(route, len(outputs))
        if route.sink is not None:
            self._sinks.write(route.name, route.sink, outputs)
        else:
            self._send(route, outputs, rows)

    def _send(self, route: OutputRoute, records: list[Record], rows: list[Row]) -> None:
        bundle, first = self._bundle, self._position
        self._position += len(records)
        messages = messages_of(route.name, self._producer, range(first, self._position), records)
        level = bundle.levels.of_stream.get(route.name)
        if route.name in bundle.frames:
            rows.extend(frame_rows(messages, self._label))
        elif level is None:
            rows.extend(self._output(messages, self._stage, self._label))
        elif route.to_all:
            rows.extend(row for block in message_blocks(messages) for row in for_all(level, bundle.buckets, block))
        else:
            rows.extend(by_bucket(level, bundle.buckets, messages))

    def counts(self, task: StageTask, read: dict[str, int]) -> dict[str, dict[str, int]]:
        """What the task has counted, by kind and name; `read` are the messages that it was fed."""
        return {
            "read": read,
            "written": self._routes.written,
            "given": {id: number for id, number in task.input_counts.items() if number},
            "late": task.counts.late,
            "failed": task.failures.counts,
            "keyless": task.counts.keyless,
        }
