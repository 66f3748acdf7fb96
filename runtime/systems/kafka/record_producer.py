"""Writing to topics as records come."""

import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ....dsl.errors import FluvialError, SystemProblem, UsageError
from ....dsl.message import Record
from ..contract import StreamPartition
from .clients import LOG, ConnectionMonitor, producer_client
from .cluster import Cluster, KnownTopics
from .errors import FENCED, GONE, PURGED, RETRIED, TRANSIENT, fenced, out_of_reach, refused
from .records import headers_for, stamped

T = TypeVar("T")

_SLICE = 0.5
"""Seconds without a look at signals and at what has failed."""

_VAGUE = frozenset({KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

_SERVED_EACH = 500
"""Records that are sent between two looks at what became of others: a look takes as long as to send a record."""

_EARLY = (
    "%s refuses times that are far ahead (message.timestamp.after.max.ms): such messages are written with the latest "
    "time that it takes, and have their own in the header fluvial.time"
)

_TO_CLOSE = 2.0
_PAUSE = 0.1


class KafkaRecordProducer:
    """Writes records as they come, idempotently: those of one partition arrive in their order, each once; without
    `once` they may come twice after trouble.

    Brokers remember what they have of a sender by the times of its records: where these are older than the brokers'
    `producer.id.expiration.ms` (a day), what a broker had taken when it was killed may come again. Transactions are
    remembered to their end, whatever the times.

    With a transactional id it takes the right to write from all senders with that id before it.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str | None = None,
        *,
        longest: timedelta = timedelta(0),
        once: bool = True,
    ) -> None:
        settings = self._settings = cluster.settings
        self._id = transactional_id
        self._monitor = ConnectionMonitor()
        self._cluster = cluster
        self._topics = KnownTopics(cluster)
        self._failed: FluvialError | None = None
        self._in_transaction = False
        self._purged: KafkaError | None = None
        self._closed = False
        self._unserved = 0
        self._touched: set[StreamPartition] = set()
        self._early: set[str] = set()
        self._cluster.reach()
        self._client: Producer = producer_client(
            settings, self._monitor, self._not_delivered, transactional_id, longest, once=once
        )
        if transactional_id is not None:
            # Without a connection the client would look again after half a second only.
            with suppress(KafkaException):
                self._client.list_topics(timeout=_SLICE)
            self._insist("take a transactional id", self._client.init_transactions)

    def send(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Hand over records; waits for room where 64 MB wait to be written.

        Raises SystemProblem for a topic or partition that does not exist, where the cluster stays out of reach, and
        where it refused something that was sent before.
        """
        self._check()
        if self._id is not None and not self._in_transaction:
            raise UsageError("A sender with a transactional id sends within a transaction only. Call begin() first.")
        self._topics.check(stream, partition)
        self._touched.add((stream, partition))
        latest = self._topics.latest(stream)
        if latest is not None and any(record[2] > latest for record in records):
            self._send_early(stream, partition, records, latest)
            return
        produce = self._client.produce
        for key, value, timestamp, headers in records:
            try:
                if headers or not timestamp:
                    produce(stream, value, key, partition, None, None, timestamp, headers_for(timestamp, headers))
                else:
                    produce(stream, value, key, partition, None, None, timestamp)
            except (BufferError, KafkaException) as caught:
                self._wait_to_send((stream, partition), (key, value, timestamp, headers), None, caught)
        self._serve_at_times(len(records))

    def _send_early(self, stream: str, partition: int, records: Sequence[Record], latest: int) -> None:
        """Send records of which some have a time that the topic does not take yet."""
        if stream not in self._early:
            self._early.add(stream)
            LOG.warning(_EARLY, stream)
        for key, value, timestamp, headers in records:
            when, pairs = stamped(timestamp, headers, latest)
            try:
                self._client.produce(stream, value, key, partition, None, None, when, pairs)
            except (BufferError, KafkaException) as caught:
                self._wait_to_send((stream, partition), (key, value, timestamp, headers), latest, caught)
        self._serve_at_times(len(records))

    def _serve_at_times(self, sent: int) -> None:
        """Hear now and then what became of records."""
        self._unserved += sent
        if self._unserved >= _SERVED_EACH:
            self._unserved = 0
            self._serve(self._client.poll, 0)

    def flush(self) -> None:
        """Return once all that was sent is written and acknowledged by the brokers."""
        self._check()
        while self._serve(self._client.flush, _SLICE):
            self._check()
        self._check()

    def ends(self, places: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        """The offset that the next record will have, after all that was flushed, committed or not."""
        self._check()
        for place in places:
            self._topics.check(*place)
        return self._cluster.log_ends(places)

    def begin(self) -> None:
        """Start a transaction."""
        self._check()
        if self._id is None or self._in_transaction:
            wrong = "This sender has no transactional id" if self._id is None else "A transaction is open already"
            raise UsageError(f"{wrong}. Call begin() once for each commit(), on a sender that has an id.")
        self._insist("begin a transaction", lambda _: self._client.begin_transaction())
        self._in_transaction = True

    def commit(self) -> None:
        """Flush, and make visible what was sent since `begin`; at once or not at all."""
        self._check()
        if not self._in_transaction:
            raise UsageError("There is no transaction to commit. Call begin() first.")
        self.flush()
        self._insist("commit a transaction", self._client.commit_transaction)
        if self._purged is not None:
            raise self._fail(self._problem("take what was sent", self._purged))
        self._in_transaction = False

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Nobody reads these partitions before these offsets any more: the brokers remove what lies there, soon."""
        self._cluster.trim(starts)

    def close(self) -> None:
        """Drop what was sent in a transaction that is not committed, and what is not flushed.

        Readers see what was committed once this has returned, if no other transaction keeps them.
        """
        if self._closed:
            return
        self._closed = True
        self._client.purge()
        try:
            if self._in_transaction:
                # Readers wait for its end; else that comes when another takes the id, or its time is over.
                self._serve(self._client.abort_transaction, _TO_CLOSE)
        except KafkaException:
            return
        finally:
            del self._client  # its own close() would wait for brokers that are away
        if self._id is not None and self._failed is None:
            self.await_readers(self._touched)

    def await_readers(self, places: Collection[StreamPartition]) -> None:
        """Wait, but not for long, until the end of a transaction is marked in its partitions: brokers do that after
        they have agreed to it, and readers see nothing of it before."""
        until = time.monotonic() + _TO_CLOSE
        with suppress(SystemProblem):
            ends = self._cluster.log_ends(places, patience=_TO_CLOSE)
            while time.monotonic() < until:
                seen = self._cluster.ends(places, patience=_TO_CLOSE)
                if all(seen[place] >= end for place, end in ends.items()):
                    return
                time.sleep(_PAUSE / 10)

    def _check(self) -> None:
        if self._closed:
            raise UsageError("This sender is closed. Make another one.")
        if self._failed is not None:
            raise self._failed

    def _wait_to_send(
        self, place: StreamPartition, record: Record, latest: int | None, why: BufferError | KafkaException
    ) -> None:
        """Send a record as soon as there is room, and the client knows its partition again: when a broker has just come
        back, it may not. Raises SystemProblem where the topic is gone, and after `give_up_after`."""
        stream, partition = place
        key, value, timestamp, headers = record
        when, pairs = stamped(timestamp, headers, latest)
        deadline = time.monotonic() + self._settings.give_up_after
        while True:
            error = why.args[0] if isinstance(why, KafkaException) else None
            if error is not None:
                self._bear(place, error, late=time.monotonic() > deadline)
            self._serve(self._client.poll, _PAUSE)
            self._check()
            try:
                self._client.produce(stream, value, key, partition, None, None, when, pairs)
                return
            except (BufferError, KafkaException) as caught:
                why = caught

    def _bear(self, place: StreamPartition, error: KafkaError, *, late: bool) -> None:
        """Raise SystemProblem for an error at sending that does not go by itself."""
        try:
            if error.code() in GONE:
                self._cluster.check([place])
        except SystemProblem as gone:
            raise self._fail(gone) from None
        if late or error.code() not in GONE:
            raise self._fail(self._problem(f"take a record for {place[0]!r}", error)) from None

    def _serve(self, act: Callable[[float], T], seconds: float) -> T | None:
        """Let the client do something, and tell what became of records; None where it cannot go on."""
        try:
            return act(seconds)
        except SystemError as broken:  # it broke off in the middle of some function, for a fatal error
            cause = broken.__cause__
            error = cause.args[0] if isinstance(cause, KafkaException) else KafkaError(KafkaError._FATAL)
        except:  # noqa: E722 - it raises a fatal error itself, which is no exception at all
            raised: object = sys.exc_info()[1]
            if not isinstance(raised, KafkaError):
                raise
            error = raised
        self._fail(self._problem("take what was sent", error))
        return None

    def _not_delivered(self, error: KafkaError | None, message: Message) -> None:
        """Called for each record that could not be written; the first says why."""
        if error is None or self._closed:
            return
        if error.code() in PURGED and self._in_transaction:
            self._purged = self._purged or error  # the transaction has failed before, and says why at its commit
        else:
            self._fail(self._problem(f"take a record for {message.topic()!r}", error))

    def _insist(self, what: str, act: Callable[[float], object]) -> None:
        """Do something with a transaction; again while the brokers are away, up to `give_up_after`."""
        deadline = time.monotonic() + self._settings.give_up_after
        while True:
            try:
                self._serve(act, _SLICE)
                self._check()
                return
            except KafkaException as caught:
                error = caught.args[0]
                self._check()
                late = time.monotonic() > deadline
                if late or not (error.retriable() or error.code() in RETRIED) or error.txn_requires_abort():
                    if error.code() == KafkaError.UNKNOWN and self._in_transaction:
                        # All that a broker says where another takes the id at the very moment of a commit.
                        error = self._refusal(lambda: self._client.abort_transaction(_TO_CLOSE)) or error
                    raise self._fail(self._problem(what, error)) from None
            time.sleep(_PAUSE)

    def _reason(self, error: KafkaError) -> KafkaError:
        """What is behind an error that tells only that something fatal has happened."""
        if error.code() not in _VAGUE or self._id is None:
            return error
        return self._refusal(self._client.begin_transaction) or error

    def _refusal(self, act: Callable[[], object]) -> KafkaError | None:
        """The fatal error for which the client refuses to do something, if there is one."""
        try:
            act()
        except KafkaException as caught:
            error = caught.args[0]
        except SystemError as broken:
            error = broken.__cause__.args[0] if isinstance(broken.__cause__, KafkaException) else None
        else:
            return None
        return cast("KafkaError", error) if error is not None and error.fatal() else None

    def _fail(self, problem: SystemProblem) -> SystemProblem:
        self._failed = self._failed or problem
        return problem

    def _problem(self, what: str, error: KafkaError) -> SystemProblem:
        """What an error of the client means."""
        error = self._reason(error)
        if error.code() in FENCED and self._id is not None:
            return fenced(self._settings, self._id)
        if error.code() in TRANSIENT or error.code() == KafkaError._MSG_TIMED_OUT:
            return out_of_reach(self._settings, self._settings.give_up_after, self._monitor.last or error.str())
        return refused(self._settings, what, error)
