"""The streams of a pipeline driver as records: bytes to be sent to its inputs, and the bytes that it has written."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ...dsl.errors import UsageError
from ...dsl.message import Record
from ...dsl.validation import require
from ...dsl.verb_calls import explained_object
from ..kernel.compiler.bindings import are_headers
from ..systems.contract import StreamPartition
from ..systems.memory import MemorySystem

Send = Callable[[str, Sequence[Record], int | None], None]
"""Writes records to an input, to a partition or each to that of its key, and processes them."""


@partial(explained_object, error=UsageError)
class StreamRecords:
    """Reads and writes streams as bytes, where `PipelineDriver.send` and `read` encode and decode.

    >>> pipeline = Pipeline("shout")
    >>> pipeline.stream("words", value=str).map(str.upper).send_to("loud", value=str)
    >>> with PipelineDriver(pipeline) as driver:
    ...     driver.records.send("words", [(b"ann", b"hello", 5, ())])
    ...     driver.records.read("loud")
    [(b'ann', b'HELLO', 5, ())]
    """

    def __init__(self, system: MemorySystem, check: Callable[[str], None], send: Send) -> None:
        self._system = system
        self._check = check
        self._send = send

    def send(self, stream: str, records: Sequence[Record], *, partition: int | None = None) -> None:
        """Write records to an input, and process them as one batch. Without `partition` each goes to the partition that
        Kafka's partitioner gives its key, or to the first one if it has no key.

        Raises UsageError for a stream that is no input, for a partition that it does not have, and after `end()`.
        """
        expected, remedy = "tuples of key, value, timestamp and headers", 'write (b"key", b"value", 0, ())'
        for record in records:
            require(_is_record(record), UsageError, f"records.send: the record {record!r}", expected, remedy)
        self._send(stream, records, partition)

    def read(self, stream: str) -> list[Record]:
        """All records of an output that readers can see so far, partition by partition. Raises UsageError for a stream
        that the pipeline does not write."""
        self._check(stream)
        partitions = range(len(self._system.admin().ends(stream)))
        return self.read_from({(stream, partition): 0 for partition in partitions})

    def partition(self, stream: str, number: int, start: int = 0) -> list[Record]:
        """The records of one partition from the offset `start` on, of any stream of the plan: of inputs as they were
        sent, of intermediate streams with trailers and control messages."""
        return self.read_from({(stream, number): start})

    def read_from(self, starts: Mapping[StreamPartition, int]) -> list[Record]:
        """The records of several partitions, each from an offset on, in the order of their commits."""
        consumer = self._system.consumer(max_records=1 << 30)
        consumer.assign(starts)
        return [record for batch in consumer.poll() for record in batch.records]


def _is_record(record: Any) -> bool:
    if type(record) is not tuple or len(record) != 4:
        return False
    key, value, timestamp, headers = record
    return (
        all(isinstance(data, bytes | None) for data in (key, value)) and type(timestamp) is int and are_headers(headers)
    )
