"""The counts of a query that lie beside its checkpoint, and the sink that adds them up."""

from typing import TYPE_CHECKING

import msgspec

from ...state.checkpoint_path import CheckpointPath
from ..atomic_file import read, write
from ..batch_report import BatchReport
from ..counts import Counts
from ..lowering.query_plan import QueryPlan
from ..rows import OUTPUT, TaskReport, decode
from ..worker.error_texts import checked_report
from ..worker.outputs import Outputs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class WrittenCounts(msgspec.Struct):
    """The counts of all batches up to the one of this number, as they are stored beside the checkpoint."""

    batch: int = -1
    totals: Counts = msgspec.field(default_factory=Counts, name="tally")


def counts_file(query: QueryPlan) -> CheckpointPath:
    """The file beside the checkpoint of a query with the counts of all its batches."""
    return query.folder / "counted"


def read_counts(file: CheckpointPath) -> Counts:
    """The counts in a file; none if there is no file yet."""
    return _read(file).totals


def add_counts(file: CheckpointPath, batch: int, counts: Counts) -> None:
    """Add the counts of a batch to the file. Those of a batch that is run again are added once."""
    written = _read(file)
    if written.batch < batch:
        written.batch = batch
        written.totals.add(counts)
        write(file, msgspec.json.encode(written))


def _read(file: CheckpointPath) -> WrittenCounts:
    return read(file, WrittenCounts) if file.exists() else WrittenCounts()


class CountingSink:
    """The `BatchSink` of a query whose outputs are written by the tasks that make them, or that has none. It adds up
    the counts of batches in the file `counts`."""

    def __init__(self, outputs: Outputs, counts: CheckpointPath) -> None:
        self._outputs, self._counts = outputs, counts

    @property
    def outputs(self) -> Outputs:
        """What the tasks write to."""
        return self._outputs

    def run(self, rows: "DataFrame", batch: int) -> BatchReport:
        """Run a batch, add up its counts in the file, and return what its tasks have reported."""
        report = reports_of(rows)
        self.count(report, batch)
        return report

    def count(self, report: BatchReport, batch: int) -> None:
        """Add up the counts of a batch whose tasks have ended, and have reported this."""
        add_counts(self._counts, batch, report.counts)


def reports_of(rows: "DataFrame") -> BatchReport:
    """What the tasks have reported that made these rows. Raises the error of one that has failed."""
    packed = rows.where(f"level = {OUTPUT}").select("block").collect()
    blocks = (decode(block) for (block,) in packed)
    return checked_report(block.report for block in blocks if isinstance(block, TaskReport))
