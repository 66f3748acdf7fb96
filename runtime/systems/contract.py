"""The contract between systems and engines: streams are created and measured, read by offset, written in transactions.

A system holds named streams; a stream has partitions; a partition is a sequence of records with growing offsets.
Engines know systems by these contracts alone; the clients behind them are imported nowhere else.
"""

from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol, runtime_checkable

from ...dsl.message import Record
from ..size_limit import SizeLimit

StreamPartition = tuple[str, int]
"""A partition of a stream: (stream, partition number from 0)."""

StreamUse = Literal["messages", "intermediate", "changelog", "checkpoints", "heartbeats", "journal"]
"""What a stream is for. `messages` have unknown readers. Records of an `intermediate` stream are removed once its only
reader has passed them, those of a `journal` once the messages of their calls are committed. A `changelog` and
`checkpoints` keep the last record of each key."""


@dataclass(slots=True)
class RecordBatch:
    """Records of one partition in offset order; `offsets` has one entry a record (a `range` if there are no gaps).

    `passed` is the offset to continue from where the offsets after the last record are known to hold no records. A
    batch without records always has it. `buckets` has the key bucket of each record, where tasks are split by key.
    """

    stream: str
    partition: int
    offsets: Sequence[int]
    records: list[Record]
    passed: int | None = None
    buckets: bytes | None = None

    @property
    def next_offset(self) -> int:
        """The offset to read from after this batch."""
        return self.offsets[-1] + 1 if self.passed is None else self.passed

    def before(self, end: int) -> "RecordBatch":
        """The part of this batch before an offset."""
        if self.next_offset <= end:
            return self
        count = bisect_left(self.offsets, end)
        buckets = None if self.buckets is None else self.buckets[:count]
        return RecordBatch(self.stream, self.partition, self.offsets[:count], self.records[:count], end, buckets)

    def since(self, start: int) -> "RecordBatch":
        """The part of this batch from an offset on."""
        count = bisect_left(self.offsets, start)
        if count == 0 and self.next_offset >= start:
            return self
        passed = max(start, self.next_offset)
        buckets = None if self.buckets is None else self.buckets[count:]
        return RecordBatch(self.stream, self.partition, self.offsets[count:], self.records[count:], passed, buckets)

    def split(self, buckets: bytes) -> "RecordBatch":
        """This batch with the key buckets of its records."""
        return RecordBatch(self.stream, self.partition, self.offsets, self.records, self.passed, buckets)


class Admin(Protocol):
    """Creates streams, and returns their partition counts and offsets."""

    def streams(self) -> dict[str, int]:
        """Every stream's partition count."""
        ...

    def partitions(self, stream: str) -> int | None:
        """The partition count of a stream; None where the stream does not exist."""
        ...

    def create(self, stream: str, partitions: int, use: StreamUse = "messages") -> None:
        """Make a stream. Nothing happens if it exists with this count; another count raises `SystemProblem`.

        Raises `UsageError` for a name with other characters than `A-Z a-z 0-9 . _ -`, and for a count below 1.
        """
        ...

    def starts(self, stream: str) -> list[int]:
        """The first offset that can be read, by partition. Raises `SystemProblem` where the stream does not exist."""
        ...

    def ends(self, stream: str) -> list[int]:
        """The offset that the next record will have, by partition; only what readers can see counts.

        Raises `SystemProblem` where there is no such stream.
        """
        ...

    def checkpoints(self, group: str) -> dict[str, bytes]:
        """The last checkpoint of each task of a group, by task name."""
        ...

    def record_limits(self, streams: Collection[str]) -> dict[str, SizeLimit]:
        """The limits of the records of these streams. A stream without a limit, and one of which none
        is known, is left out."""
        ...


class Consumer(Protocol):
    """Reads partitions from given offsets on. Batches of one partition arrive in order, without loss or repeats; some
    offsets may hold no record, in systems that compact streams or write marks of their own into them."""

    def assign(self, positions: Mapping[StreamPartition, int]) -> None:
        """Read these partitions from these offsets on, in place of those assigned before.

        Raises `SystemProblem` for a stream or partition that does not exist, and for an offset outside of it.
        """
        ...

    def poll(self, timeout: float = 0.0, wanted: frozenset[StreamPartition] | None = None) -> list[RecordBatch]:
        """Return what can be read, at most one batch a partition; wait up to `timeout` seconds if there is nothing.

        A batch may end early. A batch without records says that the offsets before `passed` hold none. Raises
        `SystemProblem` where records that should exist cannot be read.

        Where `wanted` is given, only these partitions are read this time: that is the backpressure of a reader.
        """
        ...

    def close(self) -> None:
        """Stop reading, and release what the consumer holds."""
        ...


class Transaction(Protocol):
    """Records that become visible together.

    Call `append` any number of times, then `commit`. A transaction that is dropped leaves nothing to read. After
    `commit`, `append` and `commit` raise `UsageError`.
    """

    @property
    def size(self) -> int:
        """About how many bytes of keys and values are staged so far."""
        ...

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Stage records in order; raises `SystemProblem` where the stream or partition does not exist."""
        ...

    def commit(self, group: str = "", checkpoints: Mapping[str, bytes] | None = None) -> None:
        """Make everything visible, and write the checkpoints by task name, at once or not at all. An empty one removes
        the checkpoint of its task."""
        ...


class DurableTransaction(Transaction, Protocol):
    """A transaction that supports two-phase commit. `prepare` returns a token: keep it where it survives a crash, and
    pass it to `Publisher.publish`, as often as needed. A token takes effect once. `prepare` ends the transaction."""

    def prepare(self, group: str, checkpoints: Mapping[str, bytes]) -> bytes:
        """Make the staged records durable, but not visible. The token names the records and their checkpoints."""
        ...


class Producer(Protocol):
    """Writes to streams in transactions. Not for use by two threads at once."""

    def begin(self) -> Transaction:
        """A new transaction; several may be open at once."""
        ...

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Allow the system to remove the records before these offsets: nobody reads them any more.

        Only for streams that no other live producer writes to, and for which no prepared transaction of an earlier
        producer waits to be published.
        """
        ...

    def close(self) -> None:
        """Drop the records that were staged and not prepared."""
        ...


OtherWriters = Callable[[], Collection[str] | None]
"""Returns names of producers; None where they are not known at the moment."""


def no_others() -> Collection[str]:
    """There are no other producers, neither live ones nor earlier ones with transactions still to be published."""
    return ()


class Publisher(Producer, Protocol):
    """A producer whose transactions can be prepared, and published later: by itself, or by another after a crash."""

    @property
    def identity(self) -> str:
        """A unique name of this system. A system that was removed and created again in its place has another name."""
        ...

    @property
    def durable(self) -> bool:
        """Whether published records survive a power cut. If so, keep tokens as safe until they are published."""
        ...

    def begin(self) -> DurableTransaction:
        """A new transaction, which can be prepared."""
        ...

    def trim(self, starts: Mapping[StreamPartition, int], others: OtherWriters = no_others) -> None:
        """Allow the system to remove the records before these offsets: nobody reads them any more.

        `others` returns the names of the other producers, live or not, that may still publish to these partitions, or
        None where they are not known at the moment. Unpublished records of all other producers are removed, too.
        """
        ...

    def publish(self, token: bytes) -> None:
        """Make a prepared transaction visible, whichever producer prepared it. Nothing happens if it is visible.

        Raises `SystemProblem` for bytes that are no token of this system, and for a transaction that is gone.
        """
        ...


class RecordProducer(Protocol):
    """Writes records as they come, without waiting. Records of one partition arrive in order, each once, even if the
    connection is lost in between. One thread may send while another flushes; otherwise not for use by two threads at
    once.

    With a transactional id, the records sent between `begin` and `commit` become visible together, or not at all. A new
    producer fences all earlier producers with its id: they can no longer write, and their open transactions are
    aborted. Every method raises `SystemProblem` where the brokers stay out of reach, where they refused a record that
    was sent before, and where another producer has taken the id.
    """

    def learn(self, streams: Collection[str]) -> None:
        """Ask now what `send` must know of these streams: else the first `send` to each waits for the answers."""
        ...

    def send(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Send records; waits while the send buffer is full."""
        ...

    def flush(self) -> None:
        """Return once all records sent so far are acknowledged."""
        ...

    def ends(self, partitions: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        """The offset that the next record will have, after all flushed records, committed or not."""
        ...

    def begin(self) -> None:
        """Start a transaction. A producer with an id sends within transactions only."""
        ...

    def commit(self) -> None:
        """Flush, and make the records sent since `begin` visible."""
        ...

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Allow the system to remove the records before these offsets: nobody reads them any more."""
        ...

    def close(self) -> None:
        """Drop the records of an open transaction, and those that are not flushed."""
        ...


class System(Protocol):
    """One place where streams live."""

    @property
    def url(self) -> str:
        """How users name the system: `log:DIR`, `memory:` or `kafka://HOST:PORT`. A URL never holds a secret."""
        ...

    def admin(self) -> Admin:
        """Creates streams, and returns their partition counts, offsets and checkpoints."""
        ...

    def consumer(self, *, max_records: int = 10_000) -> Consumer:
        """`max_records` bounds a batch, in messages."""
        ...

    def producer(self) -> Producer:
        """Writes in transactions."""
        ...

    def claim(self, pipeline: str, container: str = "0") -> AbstractContextManager[None]:
        """Hold the right to run a container of a pipeline here.

        Raises `SystemProblem` at once where another run holds it. The right is released at the end of the context, and
        when the process ends, however it ends.
        """
        ...


class PublishingSystem(System, Protocol):
    """A system that keeps prepared transactions. Outputs of a task become visible together with its checkpoint."""

    def producer(self, name: str = "") -> Publisher:
        """`name` must be unique among all producers, past ones too. If it is empty, the system chooses one."""
        ...


@dataclass(frozen=True, slots=True)
class StreamWarning:
    """What a setting of a stream does that a user may not expect. `remedy` is empty where nothing is to be done."""

    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class StreamDescription:
    """The identity and the size of a stream. `id` is unique, so a stream that was deleted and created again under the
    same name has another; it is empty where the system has no ids. `partitions` may grow."""

    id: str
    partitions: int


class StreamOffsets(Protocol):
    """Offsets that systems have to which runs produce themselves, beside `Admin.starts` and `Admin.ends`."""

    def log_ends(self, stream: str) -> list[int]:
        """The offset that the next record will have, by partition, also behind records that readers do not see yet."""
        ...

    def since(self, stream: str, timestamp: int) -> list[int]:
        """The offset of the first record that has this timestamp, in ms since epoch from 0 on, or a later one, by
        partition; that of `Admin.ends` where there is none."""
        ...

    def report(self, group: str, positions: Mapping[StreamPartition, int]) -> None:
        """Publish the offsets of a consumer group, for tools that watch lag. Returns without waiting for the answer."""
        ...


class ProducingAdmin(Admin, Protocol):
    """What a run asks of a system to which it produces itself, beside the offsets and checkpoints of any `Admin`."""

    @property
    def offsets(self) -> StreamOffsets:
        """Offsets of streams and of consumer groups, beside those of any `Admin`."""
        ...

    def describe(self, streams: Collection[str]) -> dict[str, StreamDescription]:
        """Describe these streams; those that do not exist are left out."""
        ...

    @property
    def metadata_ms(self) -> int:
        """The time in ms within which clients hear of partitions that a stream has got: for so long a producer may go
        on without them."""
        ...

    def identity(self, stream: str) -> str:
        """A unique name of a stream. A stream that was deleted and created again has another."""
        ...

    def remove(self, stream: str) -> None:
        """Remove a stream that nobody uses, with its records. Nothing happens where it does not exist."""
        ...

    def check(self, stream: str, use: StreamUse) -> None:
        """Raise `SystemProblem` where the settings of an existing stream do not fit its use."""
        ...

    def warnings(self, stream: str) -> list[StreamWarning]:
        """Warnings about settings of an existing stream that change messages in ways that readers may not expect."""
        ...


@runtime_checkable
class ProducingSystem(System, Protocol):
    """A system to which producers write records as they come. State is in changelogs, and checkpoints are records.
    Every other system is a `PublishingSystem`."""

    def admin(self) -> ProducingAdmin:
        """Like that of any system; it also describes, checks and removes streams."""
        ...

    def consumer(self, *, max_records: int = 10_000, committed: bool = False) -> Consumer:
        """With `committed` the consumer reads committed records only, whatever the user's settings say."""
        ...

    def record_producer(
        self,
        transactional_id: str | None = None,
        *,
        longest: timedelta = timedelta(0),
        once: bool = True,
        streams: Collection[str] = (),
    ) -> RecordProducer:
        """`longest` bounds the time from `begin` to `commit`. Without `once` the producer is ready sooner, but after an
        error its records may arrive twice, and in another order. `streams` exist and are those that it will write to,
        as far as they are known now."""
        ...
