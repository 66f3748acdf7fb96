"""A system in memory to which records are sent as they come, and which a run can be killed at, at any of its calls."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

from engines.limited import limits_of, refuse_larger
from fluvial.dsl import SystemProblem
from fluvial.dsl.message import Record
from fluvial.planner.stream_names import checkpoints as checkpoints_of
from fluvial.runtime.kernel.state_backend import Change
from fluvial.runtime.local import open_tasks
from fluvial.runtime.size_limit import SizeLimit
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.contract import StreamDescription, StreamPartition, StreamUse, StreamWarning, System
from fluvial.runtime.systems.memory import MemoryAdmin, MemoryConsumer, MemoryProducer, MemorySystem, MemoryTransaction

FOREVER = 1 << 60

KEEPING = ("memory", "log", "sent")
"""The kinds of systems, beside a broker, on which what is kept outlives a run: see `system_named`."""


class Killed(BaseException):
    """The process is gone: nothing may catch this."""


@contextmanager
def stores_of(system: System) -> Iterator[None]:
    """Let a system in memory that records are sent to keep the stores of runs too; others keep theirs as they do."""
    if not isinstance(system, ProducingSystem):
        yield
        return
    with patch.object(open_tasks, "store_for", lambda _, task, *__: system.store(task)):
        yield


def system_named(name: str, folder: Path) -> System:
    """A system of one of the KEEPING kinds, empty."""
    systems: dict[str, System] = {
        "memory": MemorySystem(),
        "log": LogSystem(folder, fsync=False),
        "sent": ProducingSystem(),
    }
    return systems[name]


class Fate:
    """Counts the calls that a run makes, and ends it at one of them."""

    def __init__(self) -> None:
        self.left = FOREVER
        self.made = 0

    def step(self) -> None:
        self.made += 1
        self.left -= 1
        if self.left < 0:
            raise Killed


class ProducedOffsets:
    """Offsets of streams in memory, all of whose records readers see."""

    def __init__(self, admin: "ProducingAdmin") -> None:
        self._admin = admin

    def log_ends(self, stream: str) -> list[int]:
        return self._admin.ends(stream)

    def since(self, stream: str, timestamp: int) -> list[int]:
        found = []
        for records in self._admin._memory.partitions(stream):
            later = (offset for offset, record in enumerate(records) if record[2] >= timestamp)
            found.append(next(later, len(records)))
        return found

    def report(self, group: str, positions: Mapping[StreamPartition, int]) -> None:
        del group
        assert all(0 <= at <= self.log_ends(stream)[partition] for (stream, partition), at in positions.items())


class ProducingAdmin(MemoryAdmin):
    """Reads checkpoints from their stream."""

    def __init__(self, system: "ProducingSystem") -> None:
        super().__init__(system._memory)
        self._system = system

    def checkpoints(self, group: str) -> dict[str, bytes]:
        stream = checkpoints_of(group)
        records = self._memory.partition(stream, 0) if stream in self._memory.streams else []
        found = {(key or b"").decode(): value for key, value, _, _ in records}
        return {task: value for task, value in found.items() if value is not None}

    def record_limits(self, streams: Collection[str]) -> dict[str, SizeLimit]:
        return limits_of(self._system.largest, streams)

    def describe(self, streams: Collection[str]) -> dict[str, StreamDescription]:
        known = self._memory.streams
        return {name: StreamDescription(self.identity(name), len(known[name])) for name in streams if name in known}

    @property
    def offsets(self) -> "ProducedOffsets":
        return ProducedOffsets(self)

    @property
    def metadata_ms(self) -> int:
        return self._system.metadata_ms

    def identity(self, stream: str) -> str:
        return f"{stream}/{self._system.removed[stream]}"

    def remove(self, stream: str) -> None:
        self._memory.streams.pop(stream, None)
        self._system.removed[stream] += 1
        self._system.starts = {partition: at for partition, at in self._system.starts.items() if partition[0] != stream}

    def check(self, stream: str, use: StreamUse) -> None:
        del stream, use

    def warnings(self, stream: str) -> list[StreamWarning]:
        del stream
        return []


class ProducingSystem(MemorySystem):
    """What is flushed is safe; of what is not, some may arrive all the same when the sender dies. `batch` is the most
    messages that a consumer gives at once; `removed` counts how often a stream of a name was removed. `largest` has the
    most bytes of a record, by stream. `on_send` is called with what a sender is about to send. While it `restores`
    nothing, containers in one thread get no further with their restores: see `in_one_thread`."""

    def __init__(self, largest: Mapping[str, int] | None = None) -> None:
        super().__init__()
        self.largest = largest or {}
        self.batch = 3
        self.metadata_ms = 0
        self.fate = Fate()
        self.restores = True
        self.on_send: Callable[[str, Sequence[Record]], None] = lambda *_: None
        self.stores: dict[str, KillableStore] = {}
        self.starts: dict[StreamPartition, int] = {}
        self._owners: Counter[str] = Counter()
        self.removed: Counter[str] = Counter()

    def admin(self) -> ProducingAdmin:
        return ProducingAdmin(self)

    def grow(self, stream: str, partitions: int) -> None:
        """Give a stream more partitions, so many altogether."""
        known = self._memory.streams[stream]
        known.extend([] for _ in range(partitions - len(known)))

    def producer(self, name: str = "") -> "CheckpointProducer":
        del name
        return CheckpointProducer(self._memory)

    def consumer(self, *, max_records: int = 10_000, committed: bool = False) -> MemoryConsumer:
        del committed
        return TrimmedConsumer(self, min(max_records, self.batch))

    def record_producer(
        self,
        transactional_id: str | None = None,
        *,
        longest: timedelta = timedelta(0),
        once: bool = True,
        streams: Collection[str] = (),
    ) -> "MemorySender":
        del longest, once, streams
        if transactional_id is not None:
            self._owners[transactional_id] += 1
        return MemorySender(self, transactional_id, self._owners)

    def store(self, task: str) -> "KillableStore":
        """The store of a task, as the last run left it."""
        return self.stores.setdefault(task, KillableStore(self.fate))


class CheckpointTransaction(MemoryTransaction):
    """Writes checkpoints as records of their stream."""

    def commit(self, group: str = "", checkpoints: Mapping[str, bytes] | None = None) -> None:
        if checkpoints:
            stream = checkpoints_of(group)
            self._memory.streams.setdefault(stream, [[]])
            self.append(stream, 0, [(task.encode(), data or None, 0, ()) for task, data in checkpoints.items()])
        super().commit()


class CheckpointProducer(MemoryProducer):
    """Writes in transactions, checkpoints too."""

    def begin(self) -> CheckpointTransaction:
        return CheckpointTransaction(self._memory)


class TrimmedConsumer(MemoryConsumer):
    """Reads streams whose beginning is gone."""

    def __init__(self, system: ProducingSystem, max_records: int) -> None:
        super().__init__(system._memory, max_records)
        self._system = system

    def assign(self, positions: Mapping[StreamPartition, int]) -> None:
        for partition, offset in positions.items():
            assert offset >= self._system.starts.get(partition, 0), (
                f"{partition} has been removed up to {self._system.starts[partition]}"
            )
        super().assign(positions)


class MemorySender:
    """Sends to streams in memory."""

    def __init__(self, system: ProducingSystem, id: str | None, owners: Counter[str]) -> None:
        self._system = system
        self._id = id
        self._owners = owners
        self._number = owners[id or ""]
        self._waiting: list[tuple[str, int, Sequence[Record]]] = []
        self._open = False
        self.known: set[str] = set()

    def _step(self) -> None:
        if self._id is not None and self._owners[self._id] != self._number:
            raise SystemProblem("another sender has this id")
        try:
            self._system.fate.step()
        except Killed:
            if self._id is None:
                self._arrive(self._system.fate.made % (len(self._waiting) + 1))
            raise

    def _arrive(self, number: int) -> None:
        writing = self._system.producer().begin()
        for stream, partition, records in self._waiting[:number]:
            writing.append(stream, partition, records)
        writing.commit()
        del self._waiting[:number]

    def learn(self, streams: Collection[str]) -> None:
        self.known.update(streams)

    def send(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        self._system.on_send(stream, records)
        self._step()
        assert self._id is None or self._open
        refuse_larger(self._system.largest, stream, records)
        self._waiting.append((stream, partition, list(records)))

    def flush(self) -> None:
        self._step()
        if self._id is None:
            self._arrive(len(self._waiting))

    def ends(self, partitions: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        self._step()
        waiting: Counter[StreamPartition] = Counter()
        for stream, number, records in self._waiting:
            waiting[stream, number] += len(records)
        admin = self._system.admin()
        return {partition: admin.ends(partition[0])[partition[1]] + waiting[partition] for partition in partitions}

    def begin(self) -> None:
        self._step()
        assert not self._open
        self._open = True

    def commit(self) -> None:
        self._step()
        assert self._open
        self._arrive(len(self._waiting))
        self._open = False
        self._step()

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        self._step()
        self._system.starts |= starts

    def close(self) -> None:
        self._waiting.clear()


class KillableStore(MemoryStore):
    """A store that outlives the run."""

    def __init__(self, fate: Fate) -> None:
        super().__init__()
        self._fate = fate

    def write(self, changes: Iterable[Change]) -> None:
        made = list(changes)
        self._fate.step()
        super().write(made)
        self._fate.step()


class RefusingSystem(ProducingSystem):
    """A system that refuses to make clients while a test says so."""

    refuses = False

    def consumer(self, *, max_records: int = 10_000, committed: bool = False) -> MemoryConsumer:
        if self.refuses:
            raise SystemProblem("no broker")
        return super().consumer(max_records=max_records, committed=committed)
