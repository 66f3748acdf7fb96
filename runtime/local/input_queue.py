"""The queues of a task's inputs: batches that were read and wait to be processed, and the offsets of each input."""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Mapping

from ...planner.stream_names import growth_name
from ..systems.contract import RecordBatch, StreamPartition
from .offset_tracker import OffsetTracker

# One that is processed and one that is ready meanwhile; more would only be memory.
MOST_BATCHES = 2
"""An input that has so many batches waiting is not read."""


class InputQueue:
    """One input of a task: a partition that is read from an offset on.

    `next_offset` is the first offset that was not read, `read` counts the records that were read, and `processed`
    those that were processed. With `bootstrap_until` the input is processed up to that offset before the others, and
    from `hold_at` on it is not processed; nor is one that is `held`. One that is `followed` has messages behind the end
    of the run. It waits while inputs of a higher `priority` have
    messages. The `name` is that of the stream, or of the `growth` of it that the partition is of.
    """

    def __init__(
        self,
        stream: str,
        partition: int,
        offset: int,
        *,
        bootstrap_until: int | None = None,
        growth: int = 0,
        priority: int = 0,
    ) -> None:
        self.name = growth_name(stream, growth)
        self.stream = stream
        self.partition = partition
        self.growth = growth
        self.priority = priority
        self.held = False
        self.followed = False
        self.next_offset = offset
        self.bootstrap_until = bootstrap_until
        self.hold_at: int | None = None
        self.read = 0
        self.processed = 0
        self._batches: deque[RecordBatch] = deque()
        self._first = 0
        self._tracker = OffsetTracker(offset)

    def add(self, batch: RecordBatch) -> None:
        """Queue records behind those that wait, but for those before `next_offset`: other tasks read the partition too,
        from an earlier offset. A batch without records moves `next_offset` alone: a stream may have offsets that hold
        no message."""
        batch = batch.since(self.next_offset)
        if batch.records:
            self._batches.append(batch)
            self.read += len(batch.records)
        self.next_offset = batch.next_offset

    @property
    def empty(self) -> bool:
        """Whether no records wait to be processed."""
        return not self._batches

    @property
    def active(self) -> bool:
        """Whether messages are there that are not processed yet: the input is not idle."""
        return self.followed or bool(self._batches)

    @property
    def reached(self) -> int:
        """The offset of the next message to be processed."""
        return self._batches[0].offsets[self._first] if self._batches else self.next_offset

    @property
    def ready(self) -> bool:
        """Whether records wait that may be processed."""
        return bool(self._batches) and not self.held and (self.hold_at is None or self.reached < self.hold_at)

    @property
    def is_behind(self) -> bool:
        """Whether more is to be read now before the offset at which the input is held."""
        return self.hold_at is not None and self.next_offset < self.hold_at and not self.full

    @property
    def full(self) -> bool:
        """Whether the input should not be read for now."""
        return len(self._batches) >= MOST_BATCHES

    @property
    def waiting(self) -> int:
        """How many records wait to be processed."""
        return sum(len(batch.records) for batch in self._batches) - self._first

    def front(self, most: int) -> tuple[RecordBatch, int, int]:
        """The first batch, and the range of its next messages, at most `most`: the first index, and the index after
        the last one."""
        batch = self._batches[0]
        end = len(batch.records) if self.hold_at is None else bisect_left(batch.offsets, self.hold_at)
        return batch, self._first, min(self._first + most, max(end, self._first))

    def begin(self, stop: int) -> bytearray:
        """The messages of the first batch before index `stop` are in flight. Returns a mark for each of them, to be set
        to 1 once the message has landed."""
        return self._tracker.begin(self._batches[0].offsets, self._first, stop)

    def withdraw(self, count: int) -> None:
        """The last messages that are in flight, so many, were not processed after all: see `begin`."""
        self._tracker.withdraw(count)

    def land(self, stop: int) -> None:
        """All messages of the first batch before index `stop` have landed. No message may be in flight."""
        self._tracker.land_all(self._batches[0].offsets, stop)

    def remove(self, stop: int) -> None:
        """Remove the messages of the first batch before index `stop` from the queue."""
        self.processed += stop - self._first
        self._first = stop
        if stop == len(self._batches[0].records):
            self._batches.popleft()
            self._first = 0

    @property
    def landed(self) -> int:
        """The offset before which every message has landed."""
        return self._tracker.position()

    def has_landed(self, end: int) -> bool:
        """Whether all messages before an offset were read and have landed."""
        # The last offsets before `end` may hold no messages, so `landed` may never reach it.
        return self.next_offset >= end and self.empty and self._tracker.idle

    def has_passed(self, end: int) -> bool:
        """Whether all messages before an offset have landed, be there later ones or not."""
        return self.landed >= end or self.has_landed(end)


class InputQueues:
    """The queues of all inputs of a task. While bootstrap streams are processed, the other inputs are not read."""

    def __init__(self, queues: Iterable[InputQueue]) -> None:
        self._queues = {queue.name: queue for queue in queues}
        self._names = {(queue.stream, queue.partition): name for name, queue in self._queues.items()}
        limits = {name: queue.bootstrap_until for name, queue in self._queues.items()}
        self._bootstrapped = {name: end for name, end in limits.items() if end is not None}

    def __iter__(self) -> Iterator[InputQueue]:
        return iter(self._queues.values())

    @property
    def positions(self) -> dict[StreamPartition, int]:
        """The offset from which each input is to be read on."""
        return {(queue.stream, queue.partition): queue.next_offset for queue in self}

    def of(self, name: str) -> InputQueue:
        """The queue of an input, by the name of its stream or growth. Raises KeyError for one that the task lacks."""
        return self._queues[name]

    def name_of(self, partition: StreamPartition) -> str:
        """The name of the input that reads a partition."""
        return self._names[partition]

    def is_read(self, stream: str, end: int | None) -> bool:
        """Whether a stream was read up to `end`; a run without an end never has."""
        return end is not None and self._queues[stream].next_offset >= end

    def are_read(self, names: Iterable[str], ends: Mapping[StreamPartition, int]) -> bool:
        """Whether all messages of these inputs up to their end offsets were processed; others may be in flight."""
        queues = [self._queues[name] for name in names]
        partitions = [(queue, ends.get((queue.stream, queue.partition))) for queue in queues]
        return all(end is not None and queue.next_offset >= end and queue.empty for queue, end in partitions)

    def has_room(self, stream: str) -> bool:
        """Whether more of a stream may be read now."""
        return not self._waits(stream) and not self._queues[stream].full

    def is_behind(self, stream: str) -> bool:
        """Whether more of a stream is to be read, so that the task comes as far as others."""
        return not self._waits(stream) and self._queues[stream].is_behind

    def _waits(self, stream: str) -> bool:
        return self.bootstraps and stream not in self._bootstrapped

    @property
    def bootstraps(self) -> bool:
        """Whether bootstrap streams are processed, before the others."""
        return bool(self._bootstrapped)

    def hold_at(self, offsets: Mapping[str, int]) -> None:
        """Hold these streams from these offsets on: of them no later message is processed. Others go on."""
        for queue in self:
            queue.hold_at = offsets.get(queue.name)

    @property
    def reached(self) -> dict[str, int]:
        """The offset of the next message of each input to be processed."""
        return {queue.name: queue.reached for queue in self}

    def add(self, batch: RecordBatch) -> None:
        """Queue a batch at the input that is its partition."""
        self._queues[self._names[batch.stream, batch.partition]].add(batch)

    def end_bootstraps(self) -> None:
        """Let the other inputs be read once all messages of the bootstrap streams have landed."""
        if self._bootstrapped:
            pending = self._bootstrapped.items()
            self._bootstrapped = {name: end for name, end in pending if not self.has_landed(name, end)}

    @property
    def empty(self) -> bool:
        """Whether no records wait to be processed, but for those of inputs that are held."""
        return all(queue.empty or queue.held for queue in self)

    @property
    def processed(self) -> int:
        """How many records were processed."""
        return sum(queue.processed for queue in self)

    @property
    def landed(self) -> dict[str, int]:
        """The offset of each input before which every message has landed."""
        return {queue.name: queue.landed for queue in self}

    def has_landed(self, stream: str, end: int) -> bool:
        """Whether all messages of an input before an offset were read and have landed."""
        return self._queues[stream].has_landed(end)
