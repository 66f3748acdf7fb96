"""Writers of journals: entries become durable within a moment, outside of commits, and a commit waits for them.

Each system has one: where records are produced as they come, and where transactions are published."""

import asyncio
import math
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from threading import Lock, Thread
from typing import Protocol

from ....dsl.message import Record
from ...process.clock import wall_clock
from ...systems.contract import Admin, Producer, RecordProducer, StreamPartition

# A publication on a log may be a sync, which takes some milliseconds itself; a commit does not wait for the rest of it.
GATHER_SECONDS = 0.01
"""So long entries wait for others where each publication costs as much as many entries."""

CLOSE_SECONDS = 1.0
"""The longest wait at the end of a run for entries that no commit waits for any more."""


# Each is a request to brokers. What is read in vain at a start is what came in so long.
IDLE_SECONDS = 20.0
"""How often it is asked where partitions end that get no entries from here, and get them from other containers."""


class JournalWriter(Protocol):
    """Writes entries for all tasks of a container."""

    def write(self, partition: StreamPartition, name: bytes, entry: bytes) -> None:
        """Write an entry. Returns without waiting for it; an error shows in `flush`."""
        ...

    def flush(self) -> None:
        """Return once all entries are durable. Raises SystemProblem where one cannot be written."""
        ...

    def end(self, partition: StreamPartition) -> int | None:
        """The end offset of a partition as of the last flush in which it got entries, or of a later one where it gets
        none; None if that is not known yet. What was written since lies behind it."""
        ...

    def close(self) -> None:
        """Write what has gathered, as far as that is possible, and take no more entries."""
        ...


class KnownEnds:
    """The end offsets of partitions. Those of partitions that get no entries from here are asked for now and then, too:
    else a task that keeps nothing for a while would name an old offset. What tasks in other containers keep behind it
    would be read at each start, and never trimmed."""

    def __init__(
        self,
        ask: Callable[[Collection[StreamPartition]], Mapping[StreamPartition, int]],
        clock: Callable[[], float],
    ) -> None:
        self._ask, self._clock = ask, clock
        self._ends: dict[StreamPartition, int] = {}
        self._wanted: set[StreamPartition] = set()
        self._asked = -math.inf

    def of(self, partition: StreamPartition) -> int | None:
        """The end of a partition, as far as it is known."""
        self._wanted.add(partition)
        return self._ends.get(partition)

    def learn(self, flushed: Collection[StreamPartition]) -> None:
        """Ask for the ends of the partitions whose entries are durable now, and of others where that is due."""
        partitions = set(flushed)
        if self._clock() - self._asked >= IDLE_SECONDS:
            self._asked = self._clock()
            partitions |= self._wanted
        if partitions:
            self._ends.update(self._ask(partitions))


class ProducedJournal:
    """Sends entries as they come, by a producer of its own, which is in no transaction."""

    def __init__(
        self,
        producer: RecordProducer,
        wall: Callable[[], int] = wall_clock,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._producer = producer
        self._wall = wall
        self._ends = KnownEnds(producer.ends, clock)
        self._touched: set[StreamPartition] = set()
        self._lock = Lock()  # a flush in another thread takes the set while entries are written
        self._failed: Exception | None = None

    def write(self, partition: StreamPartition, name: bytes, entry: bytes) -> None:
        """Send an entry."""
        try:
            self._producer.send(*partition, [(name, entry, self._wall(), ())])
        except Exception as error:  # within a call, which is not to blame
            # The first error tells most; those that follow are often its consequences.
            self._failed = self._failed or error
        # Behind that: a flush that takes this partition must find the entry sent.
        with self._lock:
            self._touched.add(partition)

    def flush(self) -> None:
        """Return once brokers have all entries. May run in a thread while entries are written."""
        if self._failed is not None:
            raise self._failed
        # Before the flush: what is written meanwhile, in the loop's thread, belongs to the next one.
        with self._lock:
            touched, self._touched = self._touched, set()
        if touched:
            self._producer.flush()
        self._ends.learn(touched)

    def end(self, partition: StreamPartition) -> int | None:
        """The end offset of a partition as of the last flush."""
        return self._ends.of(partition)

    def close(self) -> None:
        """Close the producer, once brokers have what was sent: a run may end with an error of a message. Where they do
        not answer in time that happens later."""
        # Nothing is under way, so to close it waits for nobody, and needs no thread.
        if not self._touched:
            self._producer.close()
            return
        closing = Thread(target=self._close, name="fluvial-journal", daemon=True)
        closing.start()
        closing.join(CLOSE_SECONDS)

    def _close(self) -> None:
        with suppress(Exception):  # no commit waits for these entries; calls without one are made again
            self._producer.flush()
        self._producer.close()


class PublishedJournal:
    """Publishes the entries that come within a moment as one transaction. It is used in the thread of the producer."""

    def __init__(
        self,
        producer: Producer,
        admin: Admin,
        wall: Callable[[], int] = wall_clock,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._producer, self._admin = producer, admin
        self._wall = wall
        self._waiting: dict[StreamPartition, list[Record]] = {}
        self._ends = KnownEnds(self._ask, clock)
        self._timer: asyncio.TimerHandle | None = None
        self._failed: Exception | None = None

    def write(self, partition: StreamPartition, name: bytes, entry: bytes) -> None:
        """Gather an entry, which is published a moment later."""
        self._waiting.setdefault(partition, []).append((name, entry, self._wall(), ()))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_SECONDS, self._due)

    def flush(self) -> None:
        """Publish what has gathered."""
        if self._failed is not None:
            raise self._failed
        self._cancel()
        if self._waiting:
            self._publish()
        else:
            self._ends.learn(())

    def end(self, partition: StreamPartition) -> int | None:
        """The end offset of a partition as of the last publication."""
        return self._ends.of(partition)

    def _ask(self, partitions: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        return {partition: self._admin.ends(partition[0])[partition[1]] for partition in partitions}

    def close(self) -> None:
        """Publish what has gathered, if that can be done: a run may end with an error of a message."""
        with suppress(Exception):  # no commit waits for these entries; calls without one are made again
            self.flush()
        self.drop()

    def drop(self) -> None:
        """Drop what has gathered and is not published."""
        self._cancel()
        self._waiting.clear()

    def _due(self) -> None:
        self._timer = None
        try:
            self._publish()
        except Exception as error:  # in the loop, where nobody would see it
            self._failed = error

    def _publish(self) -> None:
        waiting, self._waiting = self._waiting, {}
        transaction = self._producer.begin()
        for (stream, partition), records in waiting.items():
            transaction.append(stream, partition, records)
        transaction.commit()
        self._ends.learn(waiting.keys())

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
