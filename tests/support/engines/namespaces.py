"""A part of a system of its own: streams whose names begin with a prefix, known without it."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from datetime import timedelta

from fluvial.dsl.message import Record
from fluvial.runtime.size_limit import SizeLimit
from fluvial.runtime.systems.contract import (
    Consumer,
    Producer,
    ProducingAdmin,
    ProducingSystem,
    RecordBatch,
    RecordProducer,
    StreamDescription,
    StreamOffsets,
    StreamPartition,
    StreamUse,
    StreamWarning,
    Transaction,
)


@dataclass(frozen=True)
class Namespace:
    """A system's streams of one prefix, so that tests with streams of the same names can share a broker."""

    system: ProducingSystem
    prefix: str

    @property
    def url(self) -> str:
        return self.system.url

    def admin(self) -> "NamedAdmin":
        return NamedAdmin(self.system.admin(), self.prefix)

    def consumer(self, *, max_records: int = 10_000, committed: bool = False) -> "NamedConsumer":
        return NamedConsumer(self.system.consumer(max_records=max_records, committed=committed), self.prefix)

    def producer(self) -> "NamedProducer":
        return NamedProducer(self.system.producer(), self.prefix)

    def record_producer(
        self,
        transactional_id: str | None = None,
        *,
        longest: timedelta = timedelta(0),
        once: bool = True,
        streams: Collection[str] = (),
    ) -> "NamedSender":
        id = None if transactional_id is None else f"{self.prefix}{transactional_id}"
        named = [self.prefix + stream for stream in streams]
        sender = self.system.record_producer(id, longest=longest, once=once, streams=named)
        return NamedSender(sender, self.prefix)

    def claim(self, pipeline: str, container: str = "0") -> AbstractContextManager[None]:
        return self.system.claim(f"{self.prefix}{pipeline}", container)


@dataclass(frozen=True)
class NamedAdmin:
    admin: ProducingAdmin
    prefix: str

    def streams(self) -> dict[str, int]:
        found = self.admin.streams().items()
        return {name.removeprefix(self.prefix): count for name, count in found if name.startswith(self.prefix)}

    def partitions(self, stream: str) -> int | None:
        return self.admin.partitions(self.prefix + stream)

    def create(self, stream: str, partitions: int, use: StreamUse = "messages") -> None:
        self.admin.create(self.prefix + stream, partitions, use)

    def starts(self, stream: str) -> list[int]:
        return self.admin.starts(self.prefix + stream)

    def ends(self, stream: str) -> list[int]:
        return self.admin.ends(self.prefix + stream)

    def checkpoints(self, group: str) -> dict[str, bytes]:
        return self.admin.checkpoints(self.prefix + group)

    def record_limits(self, streams: Collection[str]) -> dict[str, SizeLimit]:
        found = self.admin.record_limits([self.prefix + stream for stream in streams])
        return {name.removeprefix(self.prefix): limit for name, limit in found.items()}

    def describe(self, streams: Collection[str]) -> dict[str, StreamDescription]:
        found = self.admin.describe([self.prefix + stream for stream in streams])
        return {name.removeprefix(self.prefix): facts for name, facts in found.items()}

    @property
    def offsets(self) -> "NamedOffsets":
        return NamedOffsets(self.admin.offsets, self.prefix)

    @property
    def metadata_ms(self) -> int:
        return self.admin.metadata_ms

    def identity(self, stream: str) -> str:
        return self.admin.identity(self.prefix + stream)

    def check(self, stream: str, use: StreamUse) -> None:
        self.admin.check(self.prefix + stream, use)

    def warnings(self, stream: str) -> list[StreamWarning]:
        return self.admin.warnings(self.prefix + stream)


@dataclass(frozen=True)
class NamedOffsets:
    offsets: StreamOffsets
    prefix: str

    def log_ends(self, stream: str) -> list[int]:
        return self.offsets.log_ends(self.prefix + stream)

    def since(self, stream: str, timestamp: int) -> list[int]:
        return self.offsets.since(self.prefix + stream, timestamp)

    def report(self, group: str, positions: Mapping[StreamPartition, int]) -> None:
        named = {(self.prefix + name, number): at for (name, number), at in positions.items()}
        self.offsets.report(self.prefix + group, named)


@dataclass(frozen=True)
class NamedConsumer:
    consumer: Consumer
    prefix: str

    def assign(self, positions: Mapping[StreamPartition, int]) -> None:
        self.consumer.assign({(self.prefix + name, number): at for (name, number), at in positions.items()})

    def poll(self, timeout: float = 0.0, wanted: frozenset[StreamPartition] | None = None) -> list[RecordBatch]:
        partitions = None if wanted is None else frozenset((self.prefix + name, number) for name, number in wanted)
        found = self.consumer.poll(timeout, partitions)
        return [replace(batch, stream=batch.stream.removeprefix(self.prefix)) for batch in found]

    def close(self) -> None:
        self.consumer.close()


@dataclass(frozen=True)
class NamedTransaction:
    transaction: Transaction
    prefix: str

    @property
    def size(self) -> int:
        return self.transaction.size

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        self.transaction.append(self.prefix + stream, partition, records)

    def commit(self, group: str = "", checkpoints: Mapping[str, bytes] | None = None) -> None:
        self.transaction.commit(self.prefix + group if group else "", checkpoints)


@dataclass(frozen=True)
class NamedProducer:
    producer: Producer
    prefix: str

    def begin(self) -> NamedTransaction:
        return NamedTransaction(self.producer.begin(), self.prefix)

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        self.producer.trim(_prefixed(self.prefix, starts))

    def close(self) -> None:
        self.producer.close()


@dataclass(frozen=True)
class NamedSender:
    sender: RecordProducer
    prefix: str

    def learn(self, streams: Collection[str]) -> None:
        self.sender.learn([self.prefix + stream for stream in streams])

    def send(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        self.sender.send(self.prefix + stream, partition, records)

    def flush(self) -> None:
        self.sender.flush()

    def ends(self, partitions: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        found = self.sender.ends([(self.prefix + stream, partition) for stream, partition in partitions])
        return {(stream.removeprefix(self.prefix), partition): end for (stream, partition), end in found.items()}

    def begin(self) -> None:
        self.sender.begin()

    def commit(self) -> None:
        self.sender.commit()

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        self.sender.trim(_prefixed(self.prefix, starts))

    def close(self) -> None:
        self.sender.close()


def _prefixed(prefix: str, offsets: Mapping[StreamPartition, int]) -> dict[StreamPartition, int]:
    return {(prefix + stream, partition): offset for (stream, partition), offset in offsets.items()}
