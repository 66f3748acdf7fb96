"""Queues of a task's inputs: what was read and waits to be processed, and how far each input has come."""

from collections import deque
from collections.abc import Iterable, Iterator

from ..systems.contract import RecordBatch, StreamPartition
from .offset_tracker import OffsetTracker

MOST_BATCHES = 2
"""Batches of an input that wait to be processed: with as many no more is read."""


class InputQueue:
    """One input of a task: a partition that is read from an offset on.

    `next_offset` is the first offset that was not read, `read` counts the records that were read, and `processed`
    those that were processed. With `bootstrap_until` the input is processed up to that offset before the others.
    """

    def __init__(self, stream: str, partition: int, offset: int, *, bootstrap_until: int | None = None) -> None:
        self.stream = stream
        self.partition = partition
        self.next_offset = offset
        self.bootstrap_until = bootstrap_until
        self.read = 0
        self.processed = 0
        self._batches: deque[RecordBatch] = deque()
        self._first = 0
        self._landing = OffsetTracker(offset)

    def add(self, batch: RecordBatch) -> None:
        """Queue a batch that was read."""
        if batch.records:
            self._batches.append(batch)
            self.read += len(batch.records)
        self.next_offset = batch.next_offset

    @property
    def empty(self) -> bool:
        """Whether nothing waits to be processed."""
        return not self._batches

    @property
    def full(self) -> bool:
        """Whether no more should be read for now."""
        return len(self._batches) >= MOST_BATCHES

    @property
    def waiting(self) -> int:
        """How many records wait to be processed."""
        return sum(len(batch.records) for batch in self._batches) - self._first

    def front(self, most: int) -> tuple[RecordBatch, int, int]:
        """The first batch, and the indexes in it of at most so many messages that are next: from the first index to
        before the second."""
        batch = self._batches[0]
        return batch, self._first, min(self._first + most, len(batch.records))

    def begin(self, stop: int) -> bytearray:
        """The messages of the first batch up to before index `stop` are under way. Returns a mark for each of them, to
        be set to 1 once the message has landed."""
        return self._landing.begin(self._batches[0].offsets, self._first, stop)

    def land(self, stop: int) -> None:
        """All messages of the first batch before index `stop` have landed; nothing may be under way."""
        self._landing.land_all(self._batches[0].offsets, stop)

    def remove(self, stop: int) -> None:
        """The messages of the first batch before index `stop` wait no longer."""
        self.processed += stop - self._first
        self._first = stop
        if stop == len(self._batches[0].records):
            self._batches.popleft()
            self._first = 0

    @property
    def landed(self) -> int:
        """The offset before which every message has landed."""
        return self._landing.position()

    def has_landed(self, end: int) -> bool:
        """Whether all messages before an offset were read and have landed."""
        # What was read says how far it is: the last offsets may hold no messages that could land.
        return self.next_offset >= end and self.empty and self._landing.idle


class InputQueues:
    """The queues of all inputs of a task. While some are bootstrapped, the others are not read."""

    def __init__(self, queues: Iterable[InputQueue]) -> None:
        self._queues = {queue.stream: queue for queue in queues}
        limits = {name: queue.bootstrap_until for name, queue in self._queues.items()}
        self._bootstrapped = {name: end for name, end in limits.items() if end is not None}

    def __iter__(self) -> Iterator[InputQueue]:
        return iter(self._queues.values())

    @property
    def positions(self) -> dict[StreamPartition, int]:
        """Where to read each input from."""
        return {(queue.stream, queue.partition): queue.next_offset for queue in self}

    def wants(self, stream: str, end: int | None = None) -> bool:
        """Whether more of a stream should be read now, of which this run reads up to `end`."""
        queue = self._queues[stream]
        if end is not None and queue.next_offset >= end:
            return False
        waits = self._bootstrapped and stream not in self._bootstrapped
        return not waits and not queue.full

    def add(self, batch: RecordBatch) -> None:
        """Queue a batch that was read."""
        self._queues[batch.stream].add(batch)

    def end_bootstraps(self) -> None:
        """Let the other inputs be read once all has landed that is to be processed before them."""
        if self._bootstrapped:
            pending = self._bootstrapped.items()
            self._bootstrapped = {name: end for name, end in pending if not self.has_landed(name, end)}

    @property
    def empty(self) -> bool:
        """Whether nothing waits to be processed."""
        return all(queue.empty for queue in self)

    @property
    def processed(self) -> int:
        """How many records were processed."""
        return sum(queue.processed for queue in self)

    @property
    def landed(self) -> dict[str, int]:
        """The offset of each input before which every message has landed."""
        return {queue.stream: queue.landed for queue in self}

    def has_landed(self, stream: str, end: int) -> bool:
        """Whether all messages of an input before an offset were read and have landed."""
        return self._queues[stream].has_landed(end)
