"""The report of a batch: what its tasks have counted, and when each bucket that has run is next due."""

import msgspec

from .counts import Counts

Due = tuple[int, int]
"""The watermark, and the processing time, from which a bucket has something to do without messages; END for never."""


class BatchReport(msgspec.Struct, array_like=True):
    """What the tasks of a batch report to the driver. `due` has the buckets that have run, by level."""

    counts: Counts = msgspec.field(default_factory=Counts)
    due: dict[int, dict[int, Due]] = {}

    def add(self, other: "BatchReport") -> None:
        """Add the report of other tasks of the same batch."""
        self.counts.add(other.counts)
        for level, buckets in other.due.items():
            self.due.setdefault(level, {}).update(buckets)
