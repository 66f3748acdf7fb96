"""Loads a file into a stream."""

from dataclasses import dataclass

from ....dsl.message import Record
from ...files import STANDARD, Encoding, MalformedLine, ReadOptions, open_records
from ...systems.contract import System, Transaction
from ...systems.partitioner import partition_for


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of loading a file. `malformed` lines were skipped; `first_malformed` is the first of them."""

    stream: str
    partitions: int
    records: int
    malformed: int
    first_malformed: MalformedLine | None


def load(
    system: System,
    stream: str,
    path: str,
    reading: ReadOptions,
    partitions: int | None,
    encoding: Encoding = Encoding(),  # noqa: B008 - frozen
) -> Loaded:
    """Append the records of a file to a stream, which is created if it does not exist. A file becomes visible as a
    whole or not at all; standard input, which may never end, batch by batch. `encoding` encodes keys and values.

    A record goes to the partition of its key; without a key, record i goes to partition i modulo `partitions`. With
    None these are the partitions of the stream, one in a new stream. A new stream is created with the first records, so
    that a file that cannot be read leaves none; for standard input, which may wait, it is created at once.
    """
    admin, producer = system.admin(), system.producer()
    try:
        existing = admin.partitions(stream)
        number = partitions or existing or 1
        if existing is not None or path == STANDARD:
            admin.create(stream, number)  # raises SystemProblem for another number
        with open_records(path, reading, encoding) as file:
            records = 0
            transaction = producer.begin()
            for batch in file.batches():
                if not records:
                    admin.create(stream, number)
                _append(transaction, stream, number, batch, records)
                records += len(batch)
                if path == STANDARD:
                    transaction.commit()
                    transaction = producer.begin()
            if not records:
                admin.create(stream, number)
            transaction.commit()
            return Loaded(stream, number, records, file.malformed, file.first_malformed)
    finally:
        producer.close()


def _append(transaction: Transaction, stream: str, partitions: int, batch: list[Record], before: int) -> None:
    if partitions == 1:
        transaction.append(stream, 0, batch)
        return
    parts: list[list[Record]] = [[] for _ in range(partitions)]
    for number, record in enumerate(batch, before):
        parts[number % partitions if record[0] is None else partition_for(record[0], partitions)].append(record)
    for partition, records in enumerate(parts):
        if records:
            transaction.append(stream, partition, records)
