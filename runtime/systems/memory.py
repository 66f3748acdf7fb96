"""The system `memory`: streams in this process, with the guarantees of the other systems, for tests."""

import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from threading import Condition

from ...dsl.message import Record
from ..size_limit import SizeLimit
from .contract import OtherWriters, RecordBatch, StreamPartition, StreamUse, no_others
from .errors import (
    already_claimed,
    check_stream,
    ended,
    offset_outside,
    other_count,
    unknown_partition,
    unknown_stream,
    unknown_token,
)

_WHERE = "memory:"


@dataclass(slots=True)
class _Staged:
    """What a transaction makes visible."""

    records: dict[StreamPartition, list[Record]] = field(default_factory=dict)
    group: str = ""
    checkpoints: dict[str, bytes] = field(default_factory=dict)


class _Memory:
    """The streams, checkpoints and claims of one system. Every access holds the lock of `changed`."""

    def __init__(self) -> None:
        self.streams: dict[str, list[list[Record]]] = {}
        self.checkpoints: dict[str, dict[str, bytes]] = {}
        self.prepared: dict[bytes, _Staged | None] = {}
        self.numbers = count(1)
        self.claims: set[tuple[str, str]] = set()
        self.identity = uuid.uuid4().hex
        self.changed = Condition()

    def partitions(self, stream: str) -> list[list[Record]]:
        partitions = self.streams.get(stream)
        if partitions is None:
            raise unknown_stream(stream, self.streams, _WHERE)
        return partitions

    def partition(self, stream: str, partition: int) -> list[Record]:
        partitions = self.partitions(stream)
        if not 0 <= partition < len(partitions):
            raise unknown_partition(stream, partition, len(partitions), _WHERE)
        return partitions[partition]

    def publish(self, staged: _Staged) -> None:
        with self.changed:
            for (stream, partition), records in staged.records.items():
                self.partition(stream, partition).extend(records)
            if staged.checkpoints:
                self.checkpoints.setdefault(staged.group, {}).update(staged.checkpoints)
            self.changed.notify_all()

    def publish_prepared(self, token: bytes) -> None:
        with self.changed:
            if token not in self.prepared:
                raise unknown_token(_WHERE, "it was never prepared there")
            staged, self.prepared[token] = self.prepared[token], None
            if staged is not None:
                self.publish(staged)


class MemoryAdmin:
    """Makes and measures streams in memory."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory

    def streams(self) -> dict[str, int]:
        """The partition count of each stream."""
        return {stream: len(partitions) for stream, partitions in self._memory.streams.items()}

    def partitions(self, stream: str) -> int | None:
        """The partition count of a stream; None if it does not exist."""
        return self.streams().get(stream)

    def create(self, stream: str, partitions: int, use: StreamUse = "messages") -> None:
        """Create a stream. Raises SystemProblem if it exists with another partition count."""
        del use
        check_stream(stream, partitions)
        with self._memory.changed:
            existing = len(self._memory.streams.setdefault(stream, [[] for _ in range(partitions)]))
            if existing != partitions:
                raise other_count(stream, existing, partitions, _WHERE)

    def starts(self, stream: str) -> list[int]:
        """The offset of the first record of each partition: 0, since none is removed."""
        return [0] * len(self._memory.partitions(stream))

    def ends(self, stream: str) -> list[int]:
        """The offset after the last record of each partition."""
        with self._memory.changed:
            return [len(records) for records in self._memory.partitions(stream)]

    def checkpoints(self, group: str) -> dict[str, bytes]:
        """The checkpoints of a group, by task."""
        with self._memory.changed:
            return {task: data for task, data in self._memory.checkpoints.get(group, {}).items() if data}

    def record_limits(self, streams: Collection[str]) -> dict[str, SizeLimit]:
        """No limits: a record may be as large as the memory."""
        del streams
        return {}


class MemoryConsumer:
    """Reads partitions in memory from given offsets on."""

    def __init__(self, memory: _Memory, max_records: int) -> None:
        self._memory = memory
        self._max_records = max_records
        self._positions: dict[StreamPartition, int] = {}

    def assign(self, positions: Mapping[StreamPartition, int]) -> None:
        """Read these partitions from these offsets on. Raises SystemProblem for an offset outside of its partition."""
        for (stream, partition), offset in positions.items():
            end = len(self._memory.partition(stream, partition))
            if not 0 <= offset <= end:
                raise offset_outside(stream, partition, offset, 0, end, _WHERE)
        self._positions = dict(positions)

    def poll(self, timeout: float = 0.0, wanted: frozenset[StreamPartition] | None = None) -> list[RecordBatch]:
        """The next batches, at most one a partition. Waits up to `timeout` seconds if there are none."""
        with self._memory.changed:
            if timeout > 0:
                self._memory.changed.wait_for(lambda: self._can_read(wanted), timeout)
            return self._batches(wanted)

    def close(self) -> None:
        """Stop reading."""
        self._positions = {}

    def _can_read(self, wanted: frozenset[StreamPartition] | None) -> bool:
        return any(
            start < len(self._memory.partition(*where))
            for where, start in self._positions.items()
            if wanted is None or where in wanted
        )

    def _batches(self, wanted: frozenset[StreamPartition] | None) -> list[RecordBatch]:
        batches = []
        for (stream, partition), start in self._positions.items():
            if wanted is None or (stream, partition) in wanted:
                records = self._memory.partition(stream, partition)[start : start + self._max_records]
                if records:
                    batches.append(RecordBatch(stream, partition, range(start, start + len(records)), records))
                    self._positions[stream, partition] = start + len(records)
        return batches


class MemoryTransaction:
    """Records that become visible together; a prepared one outlives its producer, not the system."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory
        self._staged: _Staged | None = _Staged()
        self.size = 0
        """Bytes of keys and values staged so far."""

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Stage records in order. Raises UsageError after the end of the transaction."""
        if self._staged is None:
            raise ended()
        self._memory.partition(stream, partition)
        self._staged.records.setdefault((stream, partition), []).extend(records)
        self.size += sum(len(key or b"") + len(value or b"") for key, value, _, _ in records)

    def prepare(self, group: str, checkpoints: Mapping[str, bytes]) -> bytes:
        """Keep everything until it is published by the returned token, also by another producer."""
        staged = self._finish(group, checkpoints)
        token = b"memory-%d" % next(self._memory.numbers)
        self._memory.prepared[token] = staged
        return token

    def commit(self, group: str = "", checkpoints: Mapping[str, bytes] | None = None) -> None:
        """Make everything visible, and write the checkpoints by task name, at once."""
        self._memory.publish(self._finish(group, checkpoints or {}))

    def _finish(self, group: str, checkpoints: Mapping[str, bytes]) -> _Staged:
        staged, self._staged = self._staged, None
        if staged is None:
            raise ended()
        return _Staged(staged.records, group, dict(checkpoints))


class MemoryProducer:
    """Writes to streams in memory."""

    durable = False

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory

    @property
    def identity(self) -> str:
        """The id of this memory: no other one has it."""
        return self._memory.identity

    def begin(self) -> MemoryTransaction:
        """A new transaction; several may be open at once."""
        return MemoryTransaction(self._memory)

    def publish(self, token: bytes) -> None:
        """Make a prepared transaction visible, by its token; once only, however often it is called."""
        self._memory.publish_prepared(token)

    def trim(self, starts: Mapping[StreamPartition, int], others: OtherWriters = no_others) -> None:
        """Remove nothing: tests look at all records of a run."""

    def close(self) -> None:
        """Do nothing: staged records belong to their transaction."""


class MemorySystem:
    """Streams in the memory of this process, gone with it; each MemorySystem has its own. Safe between threads.

    >>> memory = MemorySystem()
    >>> memory.admin().create("clicks", partitions=1)
    >>> writing = memory.producer().begin()
    >>> writing.append("clicks", 0, [(b"ada", b"/home", 0, ())])
    >>> memory.admin().ends("clicks")
    [0]
    >>> writing.commit()
    >>> memory.admin().ends("clicks")
    [1]
    """

    def __init__(self) -> None:
        self._memory = _Memory()

    @property
    def url(self) -> str:
        """`memory:`, whichever system in memory it is."""
        return _WHERE

    def admin(self) -> MemoryAdmin:
        """Creates streams, and returns their partition counts, offsets and checkpoints."""
        return MemoryAdmin(self._memory)

    def consumer(self, *, max_records: int = 10_000) -> MemoryConsumer:
        """`max_records` bounds a batch, in messages."""
        return MemoryConsumer(self._memory, max_records)

    def producer(self, name: str = "") -> MemoryProducer:
        """`name` makes no difference here."""
        del name
        return MemoryProducer(self._memory)

    @contextmanager
    def claim(self, pipeline: str, container: str = "0") -> Iterator[None]:
        """Hold the right to run a container. Raises SystemProblem if another thread holds it."""
        memory, name = self._memory, (pipeline, container)
        with memory.changed:
            if name in memory.claims:
                raise already_claimed(pipeline, container, _WHERE, "by another thread of this process")
            memory.claims.add(name)
        try:
            yield
        finally:
            memory.claims.discard(name)
