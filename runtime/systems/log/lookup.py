"""Finding streams and partitions in the index of a log, or saying what is there instead."""

from pathlib import Path

from ..errors import unknown_partition, unknown_stream
from .index import Extents, Index


def partitions_of(index: Index, directory: Path, stream: str) -> list[Extents]:
    """The partitions of a stream; raises SystemProblem where there is no such stream."""
    partitions = index.streams.get(stream)
    if partitions is None:
        raise unknown_stream(stream, index.streams, f"log:{directory}")
    return partitions


def extents_of(index: Index, directory: Path, stream: str, partition: int) -> Extents:
    """The extents of a partition; raises SystemProblem where there is no such stream or partition."""
    partitions = partitions_of(index, directory, stream)
    if not 0 <= partition < len(partitions):
        raise unknown_partition(stream, partition, len(partitions), f"log:{directory}")
    return partitions[partition]
