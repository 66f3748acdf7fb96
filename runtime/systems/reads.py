"""Reads the records of a stream, up to its present end or without end."""

from collections.abc import Generator, Sequence
from contextlib import closing
from typing import Literal

from .contract import Consumer, RecordBatch, StreamPartition, System

StreamEnd = Literal["stopped", "end"]
"""Where the reading of a stream stops: when it is stopped, or at the stream's present end."""

MOST_RECORDS = 10_000
"""The most records that are read at once."""


def read_between(
    consumer: Consumer, partition: StreamPartition, start: int, end: int
) -> Generator[RecordBatch, None, None]:
    """The records of a partition between two offsets. The consumer is assigned to it alone."""
    if start < end:
        consumer.assign({partition: start})
    while start < end:
        for batch in consumer.poll(1.0):
            yield batch.before(end)
            start = batch.next_offset


def read_to_ends(
    system: System, stream: str, starts: Sequence[int], ends: Sequence[int], *, max_records: int = MOST_RECORDS
) -> Generator[RecordBatch, None, None]:
    """The records between two offsets of each partition, one partition after the other."""
    with closing(system.consumer(max_records=max_records)) as consumer:
        for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
            yield from read_between(consumer, (stream, partition), start, end)


def follow(system: System, stream: str, starts: Sequence[int]) -> Generator[RecordBatch, None, None]:
    """The records from these offsets on, one for each partition, without end."""
    with closing(system.consumer()) as consumer:
        consumer.assign({(stream, partition): start for partition, start in enumerate(starts)})
        while True:
            yield from consumer.poll(1.0)
