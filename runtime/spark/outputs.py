"""From the rows that leave a query to the partitions of the streams they name."""

from collections.abc import Callable, Iterable, Iterator, Mapping

import pyarrow as pa

from ...dsl.message import Record
from ..systems.partitioner import partition_for
from .rows import Counts, Messages, blocks_of
from .tally import Tally

Write = Callable[[str, int, list[Record]], None]
"""Takes records for a partition of a stream."""


def write_out(batches: Iterator[pa.RecordBatch], partitions: Mapping[str, int], write: Write) -> Tally:
    """Write the messages among the rows of one Spark task to streams that have so many `partitions`; returns what
    the rows have counted."""
    tally = Tally()
    for block in blocks_of(batches):
        if isinstance(block, Counts):
            tally.add(block.tally)
        elif isinstance(block, Messages):
            for partition, records in _by_partition(block, partitions[block.stream]):
                write(block.stream, partition, records)
    return tally


def _by_partition(found: Messages, partitions: int) -> Iterable[tuple[int, list[Record]]]:
    keyless = found.producer % partitions
    parts: dict[int, list[Record]] = {}
    for record in found.records():
        key = record[0]
        partition = keyless if key is None else partition_for(key, partitions)
        parts.setdefault(partition, []).append(record)
    return parts.items()
