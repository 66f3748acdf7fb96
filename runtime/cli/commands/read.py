"""Reads the records of a stream, up to its present end or without end."""

from collections.abc import Iterator, Sequence

from ...systems.contract import RecordBatch, System


def read_to_ends(system: System, stream: str, starts: Sequence[int], ends: Sequence[int]) -> Iterator[RecordBatch]:
    """The records between two offsets of each partition, one partition after the other."""
    consumer = system.consumer()
    try:
        for partition, (start, end) in enumerate(zip(starts, ends, strict=True)):
            if start < end:
                consumer.assign({(stream, partition): start})
            while start < end:
                for batch in consumer.poll(1.0):
                    yield batch.before(end)
                    start = batch.next_offset
    finally:
        consumer.close()


def follow(system: System, stream: str, starts: Sequence[int]) -> Iterator[RecordBatch]:
    """The records from these offsets on, one for each partition, without end."""
    consumer = system.consumer()
    try:
        consumer.assign({(stream, partition): start for partition, start in enumerate(starts)})
        while True:
            yield from consumer.poll(1.0)
    finally:
        consumer.close()
