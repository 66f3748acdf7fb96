"""The measure of all: each workload as a loop written by hand over the same log, with the same formats and batches.

A loop knows its job: it calls no function that it could write in place. It commits its output and how far it has come
once a second, as the engines do. What `count` has counted it keeps in memory alone, where an engine persists it.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from benchmarks.workloads import MINUTE, PARTITIONS, Charge, Payment, Total
from fluvial.dsl.message import Record
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.contract import Batch
from fluvial.runtime.systems.log import LogReader
from fluvial.runtime.systems.partitioner import partition_for

MAX_RECORDS = 1_000


class Output:
    """Writes to the stream `out` by key, and commits once a second."""

    def __init__(self, directory: Path) -> None:
        self._producer = LogSystem(directory, fsync=False).producer()
        self._transaction = self._producer.begin()
        self._reached: dict[str, bytes] = {}
        self._due = time.monotonic() + 1

    def write(self, records: list[Record]) -> None:
        """Write records."""
        parts: list[list[Record]] = [[] for _ in range(PARTITIONS)]
        for record in records:
            parts[partition_for(record[0], PARTITIONS)].append(record)
        for partition, part in enumerate(parts):
            if part:
                self._transaction.append("out", partition, part)

    def done(self, batch: Batch) -> None:
        """What a batch gave rise to is written."""
        self._reached[str(batch.partition)] = b"%d" % batch.next_offset
        if time.monotonic() >= self._due:
            self.commit()

    def commit(self) -> None:
        """Make what was written visible, and remember how far it came."""
        self._transaction.commit("loop", self._reached)
        self._transaction = self._producer.begin()
        self._due = time.monotonic() + 1

    def close(self) -> None:
        """Nothing was left open."""
        self._producer.close()


def batches(reader: LogReader, partition: int) -> Iterator[Batch]:
    """All that a partition of the input holds."""
    end = reader.ends("payments")[partition]
    return reader.read("payments", partition, 0, end, max_records=MAX_RECORDS)


def filter_map(directory: Path) -> None:
    """Decode, keep about half, make something else of it, encode."""
    decode, encode = msgspec.json.Decoder(Payment).decode, msgspec.json.Encoder().encode
    reader, output = LogReader(directory), Output(directory)
    for partition in range(PARTITIONS):
        for batch in batches(reader, partition):
            made: list[Record] = []
            for key, value, at, headers in batch.records:
                payment = decode(value or b"")
                if payment.cents % 2 == 0:
                    charge = Charge(payment.id, payment.user, payment.cents, payment.cents // 50)
                    made.append((key, encode(charge), at, headers))
            output.write(made)
        output.commit()
    output.close()


def count(directory: Path) -> None:
    """Count by key and minute; a minute is over when a message of a later one comes."""
    decode = msgspec.json.Decoder(Payment).decode
    reader, output = LogReader(directory), Output(directory)
    for partition in range(PARTITIONS):
        windows: dict[int, dict[bytes, int]] = {}
        watermark = 0
        for batch in batches(reader, partition):
            made: list[Record] = []
            for key, value, _, _ in batch.records:
                at = decode(value or b"").at
                end = at - at % MINUTE + MINUTE
                counts = windows.get(end)
                if counts is None:
                    counts = windows[end] = {}
                name = key or b""
                counts[name] = counts.get(name, 0) + 1
                if at > watermark:
                    watermark = at
                    if at >= min(windows):
                        fire(windows, watermark, made)
            output.write(made)
            output.done(batch)
        made = []
        fire(windows, 2**63, made)
        output.write(made)
        output.commit()
    output.close()


def fire(windows: dict[int, dict[bytes, int]], watermark: int, made: list[Record]) -> None:
    """Emit the windows that are over."""
    encode = msgspec.json.Encoder().encode
    for end in sorted(end for end in windows if end <= watermark):
        start = end - MINUTE
        for key, payments in windows.pop(end).items():
            made.append((key, encode(Total(key.decode(), start, payments)), end - 1, ()))


LOOPS: Mapping[str, Callable[[Path], None]] = {"filter_map": filter_map, "count_1k": count, "count_100k": count}
