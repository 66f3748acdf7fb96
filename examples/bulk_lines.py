"""Lines in bulks, for a service that takes many at once: a stream task with state of its own.

    fluvial run examples/bulk_lines.py --input lines=access.log --output bulks=-

A bulk has a hundred lines of one partition, or what came within a minute, and tells the offsets that it is of. A line
that says "stop" ends the run behind it.
"""

from collections.abc import Iterator
from datetime import timedelta

from fluvial.dsl import Collector, Envelope, ListState, Pipeline, StreamTask, TaskCoordinator

MOST = 100

Line = Envelope[bytes | None, str]


class Bulk(StreamTask[bytes | None, str, dict[str, object]]):
    """Keeps lines with their offsets until there are enough of them."""

    lines = ListState(tuple[int | None, str])

    def process(self, envelope: Line, collector: Collector[dict[str, object]], coordinator: TaskCoordinator) -> None:
        """Keep the line; send a full bulk, which is committed soon."""
        self.lines.append((envelope.offset, envelope.value))
        if len(self.lines) == MOST:
            self._send(collector)
            coordinator.commit()
        if envelope.value == "stop":
            coordinator.shutdown("all")

    def window(self, collector: Collector[dict[str, object]], _: TaskCoordinator) -> None:
        """Send what has waited for a minute."""
        self._send(collector)

    def on_end_of_stream(self, collector: Collector[dict[str, object]], _: TaskCoordinator) -> None:
        """Send what is left."""
        self._send(collector)

    def _send(self, collector: Collector[dict[str, object]]) -> None:
        for bulk in self._bulk():
            collector.send(bulk)
        self.lines.clear()

    def _bulk(self) -> Iterator[dict[str, object]]:
        kept = list(self.lines)
        if kept:
            yield {"first": kept[0][0], "last": kept[-1][0], "lines": [line for _, line in kept]}


pipeline = Pipeline("bulk-lines")
lines = pipeline.stream("lines", value=str)
pipeline.task(Bulk, lines, id="bulk", window=timedelta(minutes=1)).send_to("bulks")
