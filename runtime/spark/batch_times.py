"""The times of a batch, and its metrics: what the driver tells each of its tasks.

The driver finds watermarks from what the tasks of earlier batches have reported: see `query_times`. It tells them to
tasks by a local property of Spark's, which goes with each job. A row for each bucket would cost more. Metrics have a
property of their own, for a batch that is run again has the same times and other metrics.
"""

import msgspec
from pyspark import SparkContext, TaskContext

from ..kernel.time.bounds import START
from .batch_report import BatchMetrics

PROPERTY = "fluvial.batch.times"
"""The name of the property with the times."""
METRICS_PROPERTY = "fluvial.batch.metrics"
"""The name of the property with the metrics."""

StreamTime = tuple[int, bool]
"""A watermark in ms since epoch, and whether the stream is idle."""


class BatchTimes(msgspec.Struct, array_like=True, frozen=True):
    """The times of one batch. `before` and `after` have the watermark of each stream that is read behind a shuffle:
    before a bucket processes the messages of the batch, and after that. What a bucket fires in this batch comes behind
    `before`. `clock` is the processing time, in ms since epoch. `due` has the buckets with something to fire, by level.
    """

    before: dict[str, StreamTime] = {}
    after: dict[str, StreamTime] = {}
    clock: int = START
    due: dict[int, list[int]] = {}


_BATCH, _QUERY = "streaming.sql.batchId", "sql.streaming.queryId"
"""Spark's own properties with the number of a batch, and the unique name of its query."""

_decode = msgspec.json.Decoder(BatchTimes).decode
_decode_metrics = msgspec.json.Decoder(BatchMetrics).decode


def send_times(context: SparkContext, times: BatchTimes) -> None:
    """Pass the times on to all tasks of the jobs that this thread begins."""
    context.setLocalProperty(PROPERTY, msgspec.json.encode(times).decode())


def times_of_batch() -> BatchTimes:
    """The times of the batch whose task this is. Raises RuntimeError outside of a task of a batch."""
    text = _property(PROPERTY)
    if text is None:
        raise RuntimeError("Spark has not brought the times of the batch to its task")
    return _decode(text)


def send_metrics(context: SparkContext, metrics: BatchMetrics) -> None:
    """Pass the metrics on to all tasks of the jobs that this thread begins."""
    context.setLocalProperty(METRICS_PROPERTY, msgspec.json.encode(metrics).decode())


def metrics_of_batch() -> BatchMetrics | None:
    """The metrics of the batch whose task this is; None outside of a streaming query."""
    text = _property(METRICS_PROPERTY)
    return None if text is None else _decode_metrics(text)


def _property(name: str) -> str | None:
    task = TaskContext.get()
    return None if task is None else task.getLocalProperty(name)


def batch_of_task() -> tuple[str, int, int] | None:
    """Of which query, batch and partition the task is that runs here; None outside of a streaming query."""
    task = TaskContext.get()
    if task is None or not (batch := task.getLocalProperty(_BATCH)):
        return None
    return task.getLocalProperty(_QUERY) or "", int(batch), task.partitionId()
