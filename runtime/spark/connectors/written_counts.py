"""The counts of a query on Kafka, which lie beside its checkpoint."""

import msgspec

from ...state.checkpoint_path import CheckpointPath
from ..atomic_file import read, write
from ..counts import Counts
from ..lowering.query_plan import QueryPlan


class WrittenCounts(msgspec.Struct):
    """The counts of all batches up to the one of this number, as they are stored beside the checkpoint."""

    batch: int = -1
    totals: Counts = msgspec.field(default_factory=Counts, name="tally")


def counts_file(query: QueryPlan) -> CheckpointPath:
    """The file with the counts of a query."""
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
