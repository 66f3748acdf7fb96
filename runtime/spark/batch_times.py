"""The times of a batch: what the driver tells each of its tasks.

The driver finds watermarks from what the tasks of earlier batches have reported: see `query_times`. It tells them to
tasks by a local property of Spark's, which goes with each job. A row for each bucket would cost more.
"""

import msgspec
from pyspark import SparkContext, TaskContext

from ..kernel.time.bounds import START

PROPERTY = "fluvial.batch.times"
"""The name of the property."""

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


def tell(context: SparkContext, times: BatchTimes) -> None:
    """Tell the times to all tasks of the jobs that this thread begins."""
    context.setLocalProperty(PROPERTY, msgspec.json.encode(times).decode())


def told() -> BatchTimes:
    """The times of the batch whose task this is. Raises RuntimeError outside of a task of a batch."""
    task = TaskContext.get()
    text = None if task is None else task.getLocalProperty(PROPERTY)
    if text is None:
        raise RuntimeError("Spark has not brought the times of the batch to its task")
    return _decode(text)


def batch_of_task() -> tuple[str, int, int] | None:
    """Of which query, batch and partition the task is that runs here; None outside of a streaming query."""
    task = TaskContext.get()
    if task is None or not (batch := task.getLocalProperty(_BATCH)):
        return None
    return task.getLocalProperty(_QUERY) or "", int(batch), task.partitionId()
