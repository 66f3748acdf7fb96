"""What a system owes the engines: streams that can be made and measured, read by offset, and written in transactions.

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

StreamPartition = tuple[str, int]
"""A partition of a stream: (stream, partition number from 0)."""

StreamUse = Literal["messages", "intermediate", "changelog", "checkpoints"]
"""What a stream is made for. Readers of `messages` are not known; what an `intermediate` stream holds goes once its
only reader has passed it; of a `changelog` and of `checkpoints` the last record of each key is kept."""


@dataclass(slots=True)
class RecordBatch:
    """Records of one partition in offset order; `offsets` has one entry a record (a `range` if there are no gaps).

    `passed` is where to go on if the offsets behind the last record are known to hold none; a batch without records
    has it.
    """

    stream: str
    partition: int
    offsets: Sequence[int]
    records: list[Record]
    passed: int | None = None

    @property
    def next_offset(self) -> int:
        """The offset to read from after this batch."""
        return self.offsets[-1] + 1 if self.passed is None else self.passed

    def before(self, end: int) -> "RecordBatch":
        """The part of it that lies before an offset."""
        if self.next_offset <= end:
            return self
        count = bisect_left(self.offsets, end)
        return RecordBatch(self.stream, self.partition, self.offsets[:count], self.records[:count], end)


class Admin(Protocol):
    """Makes and measures streams."""

    def streams(self) -> dict[str, int]:
        """Every stream's partition count."""
        ...

    def partitions(self, stream: str) -> int | None:
        """The partition count of a stream, None where there is no such stream."""
        ...

    def create(self, stream: str, partitions: int, use: StreamUse = "messages") -> None:
        """Make a stream. Nothing happens if it exists with this count; another count raises `SystemProblem`.

        Raises `UsageError` for a name with other characters than `A-Z a-z 0-9 . _ -`, and for a count below 1.
        """
        ...

    def starts(self, stream: str) -> list[int]:
        """The first offset that can be read, by partition; raises `SystemProblem` where there is no such stream."""
        ...

    def ends(self, stream: str) -> list[int]:
        """The offset that the next record will have, by partition; only what readers can see counts.

        Raises `SystemProblem` where there is no such stream.
        """
        ...

    def checkpoints(self, group: str) -> dict[str, bytes]:
        """The last checkpoint of each task of a group, by task name."""
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

        A batch may end early; one without records tells that offsets were `passed` that hold none. Raises
        `SystemProblem` where what should be there cannot be read.

        `wanted` leaves out the other assigned partitions this time: that is how a reader pushes back.
        """
        ...

    def close(self) -> None: ...


class Transaction(Protocol):
    """Records that become visible together.

    `append` any number of times, then `commit`. One that is dropped leaves nothing to read. After `commit` it is over:
    `append` and `commit` raise `UsageError`.
    """

    @property
    def size(self) -> int:
        """Bytes staged so far."""
        ...

    def append(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Stage records in order; raises `SystemProblem` where the stream or partition does not exist."""
        ...

    def commit(self, group: str = "", checkpoints: Mapping[str, bytes] | None = None) -> None:
        """Make everything visible, and write the checkpoints by task name, at once or not at all. An empty one removes
        the checkpoint of its task."""
        ...


class DurableTransaction(Transaction, Protocol):
    """A transaction that can also be prepared: `prepare`, keep the token where it survives a crash, and hand it to
    `Publisher.publish`, as often as need be: a token takes effect once. After `prepare` the transaction is over."""

    def prepare(self, group: str, checkpoints: Mapping[str, bytes]) -> bytes:
        """Make what is staged durable, not yet visible; the token names it and the checkpoints that go with it."""
        ...


class Producer(Protocol):
    """Writes to streams. Not for use by two threads at once."""

    def begin(self) -> Transaction:
        """A new transaction; several may be open at once."""
        ...

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Nobody reads these partitions before these offsets any more: what lies there may be removed.

        Only for streams that no other producer alive writes to, and for which no transaction of one that is gone waits
        to be published.
        """
        ...

    def close(self) -> None:
        """Drop what was staged and not prepared."""
        ...


OtherWriters = Callable[[], Collection[str] | None]
"""Names of producers; None where they are not known at the moment."""


def no_others() -> Collection[str]:
    """No other producer is alive, and none that is gone has left a transaction that is still to be published."""
    return ()


class Publisher(Producer, Protocol):
    """A producer whose transactions can be prepared, and published later: by itself, or by another after a crash."""

    @property
    def identity(self) -> str:
        """A name that no other system ever had, nor one in this place that was removed and made anew."""
        ...

    @property
    def durable(self) -> bool:
        """Whether what is published survives a power cut. A token must be as safe before it is published."""
        ...

    def begin(self) -> DurableTransaction: ...

    def trim(self, starts: Mapping[StreamPartition, int], others: OtherWriters = no_others) -> None:
        """Nobody reads these partitions before these offsets any more: what lies there may be removed.

        `others` returns the names of the other producers that may still publish to these partitions, alive or not, or
        None if that is not known at the moment. Unpublished records of all the rest are removed, too.
        """
        ...

    def publish(self, token: bytes) -> None:
        """Make a prepared transaction visible, also one of another producer; nothing happens if it is visible already.

        Raises `SystemProblem` for bytes that are no token of this system, and for a transaction that is gone.
        """
        ...


class RecordProducer(Protocol):
    """Writes records as they come, without waiting: those of one partition arrive in their order, each once, also where
    the connection is lost in between. Not for use by two threads at once.

    With a transactional id, all that is sent between `begin` and `commit` becomes visible together, or not at all; to
    make one with an id takes the right to write from all senders with that id before it, and drops what they had not
    committed. Every method raises `SystemProblem` where the brokers stay out of reach, where they refused something
    that was sent before, and where another sender has taken the id.
    """

    def send(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Hand over records; may wait for room."""
        ...

    def flush(self) -> None:
        """Return once all that was sent is safe."""
        ...

    def ends(self, places: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        """The offset that the next record will have, after all that was flushed, committed or not."""
        ...

    def begin(self) -> None:
        """Start a transaction; with an id, nothing can be sent outside of one."""
        ...

    def commit(self) -> None:
        """Flush, and make visible what was sent since `begin`."""
        ...

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Nobody reads these partitions before these offsets any more: what lies there may be removed."""
        ...

    def close(self) -> None:
        """Drop what was sent in a transaction that is not committed, and what is not flushed."""
        ...


class System(Protocol):
    """One place where streams live."""

    @property
    def url(self) -> str:
        """How users name it: `log:DIR`, `memory:` or `kafka://HOST:PORT`; it never holds a secret."""
        ...

    def admin(self) -> Admin: ...

    def consumer(self, *, max_records: int = 10_000) -> Consumer:
        """`max_records` bounds a batch, in messages."""
        ...

    def producer(self) -> Producer: ...

    def claim(self, pipeline: str, container: str = "0") -> AbstractContextManager[None]:
        """Hold the right to run a container of a pipeline here.

        Raises `SystemProblem` at once where another run has it. It is given back at the end of the context, and with
        the process however that ends.
        """
        ...


class PublishingSystem(System, Protocol):
    """A system that keeps prepared transactions: what a task commits becomes visible at one stroke with its state."""

    def producer(self, name: str = "") -> Publisher:
        """`name` is one that no other producer ever had; the system chooses one where it is empty."""
        ...


@dataclass(frozen=True, slots=True)
class StreamWarning:
    """What somebody may not expect, and what to do; nothing where there is nothing to do."""

    text: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class StreamDescription:
    """What a stream is: an `id` that no other stream ever had, nor one of this name that was deleted and made anew,
    empty where the system tells none; and how many partitions it has, which may become more."""

    id: str
    partitions: int


class SendingAdmin(Admin, Protocol):
    """The admin of a system to which records are sent."""

    def describe(self, streams: Collection[str]) -> dict[str, StreamDescription]:
        """What those of these streams are that exist."""
        ...

    def identity(self, stream: str) -> str:
        """A name that no other stream ever had, nor one of this name that was deleted and made anew."""
        ...

    def remove(self, stream: str) -> None:
        """Remove a stream and all that it holds, which nobody uses; nothing happens where there is none."""
        ...

    def report_offsets(self, group: str, positions: Mapping[StreamPartition, int]) -> None:
        """Tell those who watch lag how far a group has come: for information only, without waiting."""
        ...

    def check(self, stream: str, use: StreamUse) -> None:
        """Raise `SystemProblem` where a stream that exists is not kept as its use needs."""
        ...

    def warnings(self, stream: str) -> list[StreamWarning]:
        """What the settings of a stream that exists do to messages, where readers of an output may not expect it."""
        ...


@runtime_checkable
class SendingSystem(System, Protocol):
    """A system to which records are sent as they come: state has changelogs there, and checkpoints are records. All
    others are a `PublishingSystem`."""

    def admin(self) -> SendingAdmin: ...

    def consumer(self, *, max_records: int = 10_000, committed: bool = False) -> Consumer:
        """With `committed` it gives no record of a transaction that was not committed, whatever the user's settings
        say."""
        ...

    def record_producer(
        self, transactional_id: str | None = None, *, longest: timedelta = timedelta(0), once: bool = True
    ) -> RecordProducer:
        """`longest` is how long a transaction of it may take before it is committed. Without `once` it is ready sooner,
        and what it sends may come twice, and in another order, after trouble."""
        ...
