"""How messages leave a query: as rows, or straight from the worker that has made them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

from ....dsl.message import Record
from ...systems.partitioner import partition_for
from ..rows import OUTPUT, Messages, Row, message_blocks

Output = Callable[[Messages, int], Iterable[Row]]
"""Takes messages that leave a query, and the bucket they are made in; the rows that it returns travel on instead."""

Outputs = Callable[[], AbstractContextManager[Output]]
"""Opens an output in a worker; once it is closed well, all it was given is safe. It is sent to workers."""


def as_rows(found: Messages, bucket: int) -> Iterator[Row]:
    """Messages as rows that the levels to come pass on."""
    return ((OUTPUT, bucket, block) for block in message_blocks(found))


def all_as_rows() -> AbstractContextManager[Output]:
    """What leaves a query leaves it as rows."""
    return nullcontext(as_rows)


def by_partition(found: Messages, partitions: Mapping[str, int]) -> Iterable[tuple[int, list[Record]]]:
    """Messages as records for the partitions of their stream, of streams that have so many."""
    count = partitions[found.stream]
    keyless = found.producer % count
    parts: dict[int, list[Record]] = {}
    for record in found.records():
        key = record[0]
        partition = keyless if key is None else partition_for(key, count)
        parts.setdefault(partition, []).append(record)
    return parts.items()
