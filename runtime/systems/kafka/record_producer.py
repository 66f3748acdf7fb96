"""The producer of runs: writes records to topics as they come, in a transaction if it has an id."""

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from ....dsl.errors import FluvialError, SystemProblem, UsageError
from ....dsl.message import Record
from ....dsl.validation import explain
from ..contract import StreamPartition
from .batch_markers import BatchMarker, BatchMarkers, offsets
from .clients import LOG, ConnectionMonitor, producer_client, transaction_timeout
from .cluster import Cluster, KnownTopics
from .errors import FENCED, GONE, PURGED, RETRIED, TRANSIENT, fenced, out_of_reach, refused
from .record_limits import batch_of
from .records import headers_for, stamped

T = TypeVar("T")

_SLICE = 0.5
"""The longest wait in the client, in seconds. Signals and failures are checked between two waits."""

_VAGUE = frozenset({KafkaError._FATAL, KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT})

_SERVED_EACH = 500
"""Records sent between two checks for failed deliveries. A check costs as much as sending a record."""

_EARLY = (
    "%s refuses times that are far ahead (message.timestamp.after.max.ms): such messages are written with the latest "
    "time that it takes, and have their own in the header fluvial.time"
)

# Less than the 2.5 s that a process has for closing after its last commit (`process/signals.py`).
_TO_CLOSE = 2.0
# Between two attempts while the buffer is full, or a broker refuses a transaction for now: it is not asked more often.
_PAUSE = 0.1


class KafkaRecordProducer:
    """Writes records as they come, idempotently: records of one partition arrive in order, each once. Without `once`
    they may arrive twice after an error.

    Brokers expire the state of an idempotent producer by the timestamps of its records. Where these are older than
    `producer.id.expiration.ms` of the brokers (a day), records that a broker had accepted when it was killed may arrive
    twice. State of an open transaction does not expire.

    A new producer with a transactional id fences all earlier producers with that id. It asks how much the topics of
    `streams` take at once, so that it sends no more.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str | None = None,
        *,
        longest: timedelta = timedelta(0),
        once: bool = True,
        streams: Collection[str] = (),
        make: Callable[..., Producer] = producer_client,
    ) -> None:
        settings = self._settings = cluster.settings
        self._id = transactional_id
        self._monitor = ConnectionMonitor(cluster.machine.clock)
        self._cluster = cluster
        self._machine = cluster.machine
        self._topics = KnownTopics(cluster)
        self._failed: FluvialError | None = None
        self._in_transaction = False
        self._open_within, self._began = transaction_timeout(settings, longest).total_seconds(), 0.0
        self._purged: KafkaError | None = None
        self._closed = False
        self._unserved = 0
        self._touched: set[StreamPartition] = set()
        self._early: set[str] = set()
        self._cluster.reach()
        batch = batch_of(cluster.known_settings(streams).values() if streams else ())
        self._client = make(
            settings, self._monitor, self._not_delivered, transactional_id, longest, once=once, batch=batch
        )
        if transactional_id is not None:
            # Connects first: without a connection init_transactions waits half a second before it tries again.
            with suppress(KafkaException):
                self._client.list_topics(timeout=_SLICE)
            self._insist("take a transactional id", self._client.init_transactions)

    def learn(self, streams: Collection[str]) -> None:
        """Ask now what `send` must know of these topics: else the first `send` to each waits for the answers."""
        self._topics.learn(streams)

    def send(self, stream: str, partition: int, records: Sequence[Record]) -> None:
        """Send records. Waits while 64 MB are still to be written.

        Raises SystemProblem for a topic or partition that does not exist, where the cluster stays out of reach, and
        where it refused a record that was sent before.
        """
        self._check()
        if self._id is not None and not self._in_transaction:
            wrong = "a producer with a transactional id sends within a transaction only"
            raise UsageError(explain(wrong, "an open transaction", "call begin() first"))
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
        """Send records of which some have timestamps that are too far ahead for the topic."""
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
        """Check for failed deliveries each time that 500 records were sent."""
        self._unserved += sent
        if self._unserved >= _SERVED_EACH:
            self._unserved = 0
            self._serve(self._client.poll, 0)

    def flush(self) -> None:
        """Return once the brokers have acknowledged all records sent so far."""
        self._check()
        while self._serve(self._client.flush, _SLICE):
            self._check()
        self._check()

    def ends(self, partitions: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        """The offset that the next record will have, after all flushed records, committed or not."""
        self._check()
        for partition in partitions:
            self._topics.check(*partition)
        return self._cluster.offsets.log_ends(partitions)

    def begin(self) -> None:
        """Start a transaction. Raises UsageError without a transactional id, and while one is open."""
        self._check()
        if self._id is None or self._in_transaction:
            wrong = "this producer has no transactional id" if self._id is None else "a transaction is open already"
            expected = "a producer that has a transactional id, and no open transaction"
            raise UsageError(explain(wrong, expected, "call begin() once for each commit()"))
        self._insist("begin a transaction", lambda _: self._client.begin_transaction())
        self._in_transaction, self._began = True, self._machine.clock()

    @property
    def is_overdue(self) -> bool:
        """Whether the transaction has been open for longer than brokers leave it open: they may have ended it."""
        return self._in_transaction and self._machine.clock() - self._began > self._open_within

    def mark(self, markers: BatchMarkers, batch: Mapping[StreamPartition, BatchMarker]) -> None:
        """Flush, and add markers of a batch to the open transaction."""
        self.flush()
        partitions, group = offsets(batch, self.ends(batch)), markers.group()
        send = self._client.send_offsets_to_transaction
        self._insist("add offsets to a transaction", lambda seconds: send(partitions, group, seconds))

    def commit(self) -> None:
        """Flush, and make the records sent since `begin` visible, all at once or not at all."""
        self._check()
        if not self._in_transaction:
            raise UsageError(explain("there is no transaction to commit", "an open transaction", "call begin() first"))
        self.flush()
        self._insist("commit a transaction", self._client.commit_transaction)
        if self._purged is not None:
            raise self._fail(self._problem("take what was sent", self._purged))
        self._in_transaction = False

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Allow the brokers to remove the records before these offsets: nobody reads them any more."""
        self._cluster.offsets.trim(starts)

    def close(self) -> None:
        """Drop the records of an open transaction, and those that are not flushed.

        Once this has returned, readers see all committed records, unless another transaction is open before them.
        """
        if self._closed:
            return
        self._closed = True
        self._client.purge()
        try:
            if self._in_transaction:
                # Readers wait for the end of the transaction. Without this it ends when it is fenced, or times out.
                self._serve(self._client.abort_transaction, _TO_CLOSE)
        except KafkaException:
            return
        finally:
            del self._client  # its close() would wait for brokers that are out of reach
        if self._id is not None and self._failed is None:
            self.await_readers(self._touched)

    def await_readers(self, partitions: Collection[StreamPartition]) -> None:
        """Wait, for two seconds at most, until the partitions have the commit marker of a transaction. Brokers write it
        after they have acknowledged the commit, and readers see no record of the transaction before."""
        until = self._machine.clock() + _TO_CLOSE
        with suppress(SystemProblem):
            ends = self._cluster.offsets.log_ends(partitions, patience=_TO_CLOSE)
            while self._machine.clock() < until:
                seen = self._cluster.offsets.ends(partitions, patience=_TO_CLOSE)
                if all(seen[partition] >= end for partition, end in ends.items()):
                    return
                self._machine.sleep(_PAUSE / 10)

    def _check(self) -> None:
        if self._closed:
            raise UsageError(explain("this producer is closed", "an open producer", "make another one"))
        if self._failed is not None:
            raise self._failed

    def _wait_to_send(
        self, partition: StreamPartition, record: Record, latest: int | None, why: BufferError | KafkaException
    ) -> None:
        """Send a record once the buffer has capacity and the client knows the partition: it may lose that when a broker
        restarts. Raises SystemProblem where the topic was removed, and after `give_up_after`."""
        stream, number = partition
        key, value, timestamp, headers = record
        when, pairs = stamped(timestamp, headers, latest)
        deadline = self._machine.clock() + self._settings.give_up_after
        while True:
            error = why.args[0] if isinstance(why, KafkaException) else None
            if error is not None:  # else the buffer is full, which passes as records are delivered
                self._raise_unless_retriable(partition, error, late=self._machine.clock() > deadline)
            self._serve(self._client.poll, _PAUSE)
            self._check()
            try:
                self._client.produce(stream, value, key, number, None, None, when, pairs)
                return
            except (BufferError, KafkaException) as caught:
                why = caught

    def _raise_unless_retriable(self, partition: StreamPartition, error: KafkaError, *, late: bool) -> None:
        """Raise SystemProblem for an error at sending that a retry cannot correct."""
        try:
            if error.code() in GONE:
                self._cluster.check([partition])
        except SystemProblem as gone:
            raise self._fail(gone) from None
        if late or error.code() not in GONE:
            raise self._fail(self._problem(f"take a record for {partition[0]!r}", error)) from None

    def _serve(self, act: Callable[[float], T], seconds: float) -> T | None:
        """Call the client, which runs the callbacks of failed deliveries. None where the client has failed for good."""
        try:
            return act(seconds)
        except SystemError as broken:  # a fatal error interrupted a callback
            cause = broken.__cause__
            error = cause.args[0] if isinstance(cause, KafkaException) else KafkaError(KafkaError._FATAL)
        except:  # noqa: E722 - the client raises a fatal KafkaError, which is not a subclass of BaseException
            raised: object = sys.exc_info()[1]
            if not isinstance(raised, KafkaError):
                raise
            error = raised
        self._fail(self._problem("take what was sent", error))
        return None

    def _not_delivered(self, error: KafkaError | None, message: Message) -> None:
        """Called for each record that could not be written. The first error is kept."""
        if error is None or self._closed:
            return
        if error.code() in PURGED and self._in_transaction:
            self._purged = self._purged or error  # the transaction failed before; its commit raises the cause
        else:
            size = ""
            if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
                size = f" of {len(message.value() or b'') + len(message.key() or b''):,} bytes"
            self._fail(self._problem(f"take a record{size} for {message.topic()!r}", error))

    def _insist(self, what: str, act: Callable[[float], object]) -> None:
        """Call a transactional method of the client. Retries up to `give_up_after` while no broker can be reached."""
        deadline = self._machine.clock() + self._settings.give_up_after
        while True:
            try:
                self._serve(act, _SLICE)
                self._check()
                return
            except KafkaException as caught:
                error = caught.args[0]
                if error.code() in TRANSIENT:
                    self._serve(self._client.poll, 0)  # runs the error callback, which feeds the monitor
                self._check()
                late = self._machine.clock() > deadline
                if late or not (error.retriable() or error.code() in RETRIED) or error.txn_requires_abort():
                    if error.code() == KafkaError.UNKNOWN and self._in_transaction:
                        # A broker says no more if another producer takes the id at the moment of a commit.
                        error = self._refusal(lambda: self._client.abort_transaction(_TO_CLOSE)) or error
                    raise self._fail(self._problem(what, error)) from None
            self._machine.sleep(_PAUSE)

    def _reason(self, error: KafkaError) -> KafkaError:
        """The cause of an error that says only that the client has failed for good."""
        if error.code() not in _VAGUE or self._id is None:
            return error
        return self._refusal(self._client.begin_transaction) or error

    def _refusal(self, act: Callable[[], object]) -> KafkaError | None:
        """The fatal error with which the client refuses a call, if there is one."""
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
        """The SystemProblem for an error of the client."""
        error = self._reason(error)
        if error.code() in FENCED and self._id is not None:
            return fenced(self._settings, self._id)
        if error.code() in TRANSIENT or error.code() == KafkaError._MSG_TIMED_OUT:
            return out_of_reach(self._settings, self._settings.give_up_after, self._monitor.last or error.str())
        return refused(self._settings, what, error)
