"""What a query does at present: the thread of its batches notes it and tells tasks, the monitor of the run reads it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ....dsl.errors import SystemProblem
from ...kernel.time.bounds import END, START
from ...systems.end_offsets import EndOffsets
from ..batch_report import BatchMetrics
from ..batch_times import send_metrics
from ..counts import Counts
from ..lowering.query_plan import QueryPlan
from .checkpoint_log import end_offsets
from .connection import Connection
from .job_tasks import NO_TASKS, JobTasks, jobs_with_tag, tasks_of

if TYPE_CHECKING:
    from pyspark import SparkContext


ENDS_SECONDS = 1.0
"""How long a batch waits for the ends of its sources, by which its lag is known."""
_START = "spark.jobGroup.id"
"""Spark's own property with the unique name of a query's start, which is the group of its jobs."""


class QueryStatus:
    """The status of one query in one run. `watermarks` are in ms since epoch, by "stream/partition"; those of streams
    behind shuffles have no partition."""

    def __init__(
        self, query: QueryPlan, connection: Connection, context: "SparkContext", patience: float = ENDS_SECONDS
    ) -> None:
        """A batch waits for the ends of its sources no longer than `patience` seconds."""
        self._query, self._connection, self._context = query, connection, context
        self._patience, self._ends = patience, EndOffsets(connection.system.admin(), threaded=True)
        self._tag: str | None = None
        self._reported = connection.counts(query)
        self.watermarks: Mapping[str, int] = dict(self._reported.watermarks)

    @contextmanager
    def in_batch(self, batch: int, watermarks: Mapping[str, int]) -> Iterator[None]:
        """While a batch runs, in the thread that begins its jobs: tell its tasks its metrics, and let `tasks` count
        them. `watermarks` are as for `finish`."""
        self._show(watermarks)
        send_metrics(self._context, BatchMetrics(by_stream(self.watermarks), self._lags(batch)))
        # A batch that is run again has jobs of its own.
        tag = f"fluvial-{self._context.getLocalProperty(_START)}-{batch}"
        self._context.addJobTag(tag)
        self._tag = tag
        try:
            yield
        finally:
            self._tag = None
            self._context.removeJobTag(tag)

    def finish(self, reported: Counts, watermarks: Mapping[str, int]) -> None:
        """Add what the tasks of a batch have reported, and show `watermarks` that messages do not report: those of
        streams behind shuffles, and of partitions that are idle."""
        self._reported.add(reported)
        self._show(watermarks)

    def _show(self, watermarks: Mapping[str, int]) -> None:
        # In place of the mapping that another thread may be reading.
        self.watermarks = {**self._reported.watermarks, **watermarks}

    def tasks(self) -> JobTasks:
        """The tasks of the present batch, of those jobs that have begun."""
        tag = self._tag
        return NO_TASKS if tag is None else tasks_of(self._context, jobs_with_tag(self._context, tag))

    def _lags(self, batch: int) -> dict[str, int]:
        """The number of messages of each source behind a planned batch; none if the system does not tell in time:
        whatever keeps it from that, the batch itself meets it and says so."""
        query = self._query
        if not query.sources:
            return {}
        try:
            planned = {**query.starts, **self._connection.offsets(end_offsets(query.checkpoint, batch))}
        except SystemProblem:
            return {}
        self._ends.request(query.sources)
        self._ends.wait(self._patience)
        ends = self._ends.latest or {}
        # The topics may have got more partitions than are planned.
        return {
            name: sum(max(0, end - at) for at, end in zip(planned[name], of_stream, strict=False))
            for name, of_stream in ends.items()
        }


def by_stream(watermarks: Mapping[str, int]) -> dict[str, int]:
    """The least watermark of each stream, of those by "stream/partition". There is none before the first message.

    >>> by_stream({"clicks/0": 70, "clicks/1": 60, "by-user/": 60})
    {'clicks': 60, 'by-user': 60}
    """
    least: dict[str, int] = {}
    for partition, mark in watermarks.items():
        stream = partition.rpartition("/")[0]
        if mark not in (START, END):
            least[stream] = min(mark, least.get(stream, mark))
    return least
