"""The buffer of a partition: batches that were fetched and wait for the reader."""

from collections import deque
from collections.abc import Sequence

from confluent_kafka import Message, TopicPartition

from ..contract import RecordBatch, StreamPartition
from .records import records_of

MAX_PREFETCHED_BYTES = 8 << 20
"""Bytes that a partition may buffer while its reader does not want them; then the partition is paused. A pause makes
the client drop what it has prefetched, so pausing at once, each time, would fetch most messages twice."""

_BYTES_A_RECORD = 200
"""Approximate bytes that a record takes besides its key and value."""


class PrefetchBuffer:
    """The batches of one partition, in order. `position` is the offset after the last of them, and `taken` the one
    after those that were taken out."""

    __slots__ = ("_batches", "bytes", "partition", "paused", "position", "stream", "taken")

    def __init__(self, partition: StreamPartition, position: int) -> None:
        self.stream, self.partition = partition
        self.position = self.taken = position
        self.paused = False
        self.bytes = 0
        self._batches: deque[tuple[RecordBatch, int]] = deque()

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition, as the client names it."""
        return TopicPartition(self.stream, self.partition)

    def __bool__(self) -> bool:
        return bool(self._batches)

    def put(self, messages: Sequence[Message], *, weigh: bool) -> None:
        """Add messages. With `weigh` their bytes are counted, since they may wait for long."""
        first, last = messages[0].offset() or 0, messages[-1].offset() or 0
        if last - first + 1 == len(messages):
            offsets: Sequence[int] = range(first, last + 1)
        else:
            offsets = [message.offset() or 0 for message in messages]
        weight = sum(map(len, messages)) + _BYTES_A_RECORD * len(messages) if weigh else 0
        self._batches.append((RecordBatch(self.stream, self.partition, offsets, records_of(messages)), weight))
        self.bytes += weight
        self.position = last + 1

    def passed(self, position: int) -> None:
        """Record that there are no more records before `position`."""
        if position > self.position:
            self.position = position
            if self._batches:
                self._batches[-1][0].passed = position
            else:
                self._batches.append((RecordBatch(self.stream, self.partition, (), [], position), 0))

    def take(self) -> RecordBatch:
        """Remove the next batch from the buffer, and return it."""
        batch, weight = self._batches.popleft()
        self.bytes -= weight
        self.taken = batch.next_offset
        return batch
