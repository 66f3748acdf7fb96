"""The report of a batch: what its tasks have counted, and when each bucket that has run is next due."""

import msgspec

from .counts import Counts

Due = tuple[int, int]
"""The watermark, and the processing time, from which a bucket has something to do without messages; END for never."""


class Failure(msgspec.Struct, array_like=True, frozen=True):
    """An error of the pipeline that has ended a task: the name of its class, its text, and the traceback."""

    kind: str
    text: str
    trace: str


class BatchMetrics(msgspec.Struct, array_like=True, frozen=True):
    """What the driver knows as a batch begins: the watermarks of streams, in ms since epoch, and the number of messages
    that will still be to be read once the batch is done, by stream."""

    watermarks: dict[str, int] = {}
    lags: dict[str, int] = {}


class BatchReport(msgspec.Struct, array_like=True):
    """What the tasks of a batch report to the driver. `due` has the buckets that have run, by level. A batch with a
    `failure` is not committed. `metrics` are those that the driver has sent the tasks: Spark shows what rows carry."""

    counts: Counts = msgspec.field(default_factory=Counts)
    due: dict[int, dict[int, Due]] = {}
    failure: Failure | None = None
    metrics: BatchMetrics | None = None

    def add(self, other: "BatchReport") -> None:
        """Add the report of other tasks of the same batch."""
        self.counts.add(other.counts)
        for level, buckets in other.due.items():
            self.due.setdefault(level, {}).update(buckets)
        self.failure = self.failure or other.failure
