"""How messages leave a query: as rows to the query's sink, or written by the worker that has made them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext

from ....dsl.message import Record
from ...systems.partitioner import partition_for
from ..rows import OUTPUT, Messages, Row, message_blocks

Output = Callable[[Messages, int], Iterable[Row]]
"""Takes messages that leave the query, and the label of the bucket that made them. It writes them, or returns rows that
carry them to the query's sink."""

Outputs = Callable[[], AbstractContextManager[Output]]
"""Opens an output in a worker, where it is sent as a pickle. If the output closes without an error, all messages that
it has taken are durable."""


def as_rows(messages: Messages, label: int) -> Iterator[Row]:
    """The messages as rows of the level OUTPUT, which later levels pass on to the query's sink."""
    return ((OUTPUT, label, block) for block in message_blocks(messages))


def all_as_rows() -> AbstractContextManager[Output]:
    """An output by which all messages leave the query as rows."""
    return nullcontext(as_rows)


def by_partition(messages: Messages, partitions: Mapping[str, int]) -> Iterable[tuple[int, list[Record]]]:
    """The messages as records, grouped by the partition of their stream that they go to. `partitions` has the number of
    partitions of each stream."""
    count = partitions[messages.stream]
    keyless = messages.producer % count
    records: dict[int, list[Record]] = {}
    for record in messages.records():
        key = record[0]
        partition = keyless if key is None else partition_for(key, count)
        records.setdefault(partition, []).append(record)
    return records.items()
