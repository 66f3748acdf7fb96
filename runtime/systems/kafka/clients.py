"""The clients of confluent-kafka with their settings, and the state of their connections."""

import logging
import time
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import confluent_kafka.admin
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from ....dsl.errors import UsageError
from ....dsl.validation import explain
from ...process.resource_limits import remedy_in
from .settings import KafkaSettings

T = TypeVar("T")

admin_api: Any = confluent_kafka.admin
"""The administration module as `Any`: its type stubs leave out most names."""

LOG = logging.getLogger("fluvial.kafka")
"""The logger of the clients, which print to stderr by default. Silent unless the application sets a handler."""
LOG.addHandler(logging.NullHandler())


class _Lines:
    """Logs the lines of the client at level INFO at most. Errors that matter are raised, and a broker that is out of
    reach makes ten lines a second."""

    def log(self, level: int, form: str, kind: str, *texts: str) -> None:
        # Producers get the settings of consumers, too, and the client warns of each.
        if kind != "CONFWARN":
            LOG.log(min(level, logging.INFO), form, kind, *texts)


_LINES = _Lines()

_SILENCE = 15.0
"""Seconds without an error after which a connection counts as restored. An attempt to connect takes 10 s at most."""

_REPEATED_WITHIN = 60.0
"""Seconds within which an error of exhausted resources comes again if it lasts: librdkafka reports one that is the same
as before each 30 s."""

_COMMON: Mapping[str, object] = {
    "client.id": "fluvial",
    "reconnect.backoff.ms": 20,  # the first connection often fails
    "reconnect.backoff.max.ms": 1_000,
    "socket.connection.setup.timeout.ms": 10_000,
}
_CONSUMER: Mapping[str, object] = {
    "group.id": "fluvial",  # the client requires one, though it joins none
    "isolation.level": "read_committed",
    # Time until a full queue is checked again. The default of 1 s costs most of the throughput.
    "fetch.queue.backoff.ms": 2,
    # As fast as the default of 100,000, with a fifth of its memory.
    "queued.min.messages": 20_000,
    # The end of a partition is reported after this time; an idle broker gets 20 fetch requests a second.
    "fetch.wait.max.ms": 50,
    "max.poll.interval.ms": 86_400_000,  # the longest it takes: a busy task may not poll for long
}
_CONSUMER_ALWAYS: Mapping[str, object] = {
    "enable.auto.commit": False,  # checkpoints have the offsets
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,  # a position passes the gaps that compaction leaves at the end
    "auto.offset.reset": "error",  # else records that are gone would be skipped in silence
}
LONGEST_RECORD = 32 << 20
"""The client's default for `message.max.bytes`. The topic says how long a message may be: the default of librdkafka is
less than the brokers'."""

LONGEST_BATCH = 1_000_000
"""The client's default for `batch.size`."""

_PRODUCER: Mapping[str, object] = {
    "linger.ms": 5,
    "queue.buffering.max.messages": 0,  # no limit: the bytes below are the limit
    "queue.buffering.max.kbytes": 65_536,
    "message.max.bytes": LONGEST_RECORD,
}
_PRODUCER_ALWAYS: Mapping[str, object] = {
    # A call for each record takes 0.3 us, a third of what it takes to send it.
    "delivery.report.only.error": True,  # nothing is done for a record that has arrived
}


class ConnectionMonitor:
    """The state of the connections of a client: the last error, the last one of exhausted resources, and since when no
    broker is connected."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.last = ""
        self._clock = clock
        self._down_since: float | None = None
        self._heard_at = 0.0
        self._exhausted = ""
        self._exhausted_at = 0.0

    def __call__(self, error: KafkaError) -> None:
        """Record an error. Errors of connections repeat as long as the client fails to connect."""
        self._heard_at = self._clock()
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = error.str()
        elif self._down_since is None:
            self._down_since = self._heard_at
        if remedy_in(error.str()) is not None:
            self._exhausted, self._exhausted_at = error.str(), self._heard_at

    def answered(self) -> None:
        """Record that a broker answered."""
        self._down_since = None

    @property
    def exhausted(self) -> str:
        """The text of a recent error that says that the machine has run out of something, such as file descriptors;
        empty if there is none. An answer does not end it: it may have come by another connection."""
        return self._exhausted if self._clock() - self._exhausted_at <= _REPEATED_WITHIN else ""

    @property
    def seconds_down(self) -> float:
        """Seconds since the last broker was lost; 0 if one is connected, as far as is known."""
        now = self._clock()
        if self._down_since is None or now - self._heard_at > _SILENCE:
            self._down_since = None
            return 0.0
        return now - self._down_since


def admin_client(settings: KafkaSettings, monitor: ConnectionMonitor) -> AdminClient:
    """A client for administration. Raises UsageError for settings that it refuses."""
    conf: dict[str, Any] = {**_COMMON, **settings.conf, **_connection_settings(settings, monitor)}
    return _client(AdminClient, conf, settings)


def consumer_client(settings: KafkaSettings, monitor: ConnectionMonitor, **more: object) -> Consumer:
    """A client that reads. The settings in `more` override all others."""
    conf: dict[str, Any] = {
        **_COMMON,
        **_CONSUMER,
        **settings.conf,
        **_CONSUMER_ALWAYS,
        **more,
        **_connection_settings(settings, monitor),
    }
    return _client(Consumer, conf, settings)


def read_committed_client(settings: KafkaSettings, monitor: ConnectionMonitor) -> Consumer:
    """A client whose end offsets stop at the first open transaction."""
    return consumer_client(settings, monitor, **{"isolation.level": "read_committed"})


def read_uncommitted_client(settings: KafkaSettings, monitor: ConnectionMonitor) -> Consumer:
    """A client whose end offsets include open transactions."""
    return consumer_client(settings, monitor, **{"isolation.level": "read_uncommitted"})


def producer_client(
    settings: KafkaSettings,
    monitor: ConnectionMonitor,
    on_delivery: Any,
    transactional_id: str | None = None,
    longest: timedelta = timedelta(0),
    *,
    once: bool = True,
    batch: int = LONGEST_BATCH,
) -> Producer:
    """A client that writes. `longest` bounds the time of a transaction that meets no errors. Without `once` the client
    may write a record twice. `batch` is how many bytes of several records it puts into one, unless the user says."""
    patience = _patience(settings) // timedelta(milliseconds=1)
    conf: dict[str, Any] = {
        **_COMMON,
        **_PRODUCER,
        "batch.size": batch,
        **settings.conf,
        **_PRODUCER_ALWAYS,
        **_connection_settings(settings, monitor),
    }
    conf["on_delivery"] = on_delivery
    conf["enable.idempotence"] = once
    conf["delivery.timeout.ms"] = patience
    if transactional_id is not None:
        conf["transactional.id"] = transactional_id
        conf["transaction.timeout.ms"] = transaction_timeout(settings, longest) // timedelta(milliseconds=1)
        conf["delivery.timeout.ms"] = min(patience, conf["transaction.timeout.ms"])
    # The client requires linger.ms to be shorter than the delivery timeout.
    conf["linger.ms"] = min(float(conf["linger.ms"]), conf["delivery.timeout.ms"] - 1)
    return _client(Producer, conf, settings)


def transaction_timeout(settings: KafkaSettings, longest: timedelta) -> timedelta:
    """How long brokers leave a transaction open: as long as the user says, else for an outage of `give_up_after`, and
    for the work of `longest` besides."""
    chosen = settings.conf.get("transaction.timeout.ms")
    if chosen is not None:
        return timedelta(milliseconds=int(str(chosen)))
    return _patience(settings) + max(timedelta(minutes=1), longest)


def _patience(settings: KafkaSettings) -> timedelta:
    return max(timedelta(seconds=1), timedelta(seconds=settings.give_up_after))


def _connection_settings(settings: KafkaSettings, monitor: ConnectionMonitor) -> dict[str, Any]:
    return {"bootstrap.servers": settings.servers, "error_cb": monitor, "logger": _LINES}


def _client(client: Callable[[dict[str, Any]], T], conf: dict[str, Any], settings: KafkaSettings) -> T:
    try:
        return client(conf)
    except KafkaException as error:
        text = settings.hide(error.args[0].str()).strip()
    except (TypeError, ValueError) as error:
        text = settings.hide(str(error))
    expected = "settings of librdkafka, by their names there, with values that they can have"
    raise UsageError(explain(f"the settings for {settings.url} are refused: {text}", expected, "correct the setting"))
