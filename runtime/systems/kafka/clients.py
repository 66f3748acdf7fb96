"""Clients of the library that speaks to Kafka, and what they say of their connections."""

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
from .settings import KafkaSettings

T = TypeVar("T")

admin_api: Any = confluent_kafka.admin
"""The library's names for requests, most of which it forgets to mark as exported."""

LOG = logging.getLogger("fluvial.kafka")
"""Where the lines go that the client would print. Silent unless the application says otherwise."""
LOG.addHandler(logging.NullHandler())


class _Lines:
    """Hands the client's lines on. They are information, whatever the client takes them for: what matters is raised,
    and a broker that is away makes ten lines a second."""

    def log(self, level: int, form: str, kind: str, *texts: str) -> None:
        # A setting of consumers is handed to producers too, and the client warns of it each time.
        if kind != "CONFWARN":
            LOG.log(min(level, logging.INFO), form, kind, *texts)


_LINES = _Lines()

_SILENCE = 15.0
"""Seconds without an error after which a connection is taken for restored; trying to connect lasts 10 s at most."""

_COMMON: Mapping[str, object] = {
    "client.id": "fluvial",
    "reconnect.backoff.ms": 20,  # a first connection often has to be made again
    "reconnect.backoff.max.ms": 1_000,
    "socket.connection.setup.timeout.ms": 10_000,
}
_CONSUMER: Mapping[str, object] = {
    "group.id": "fluvial",  # the client wants one, also where it joins none
    "isolation.level": "read_committed",
    # A full queue is looked at again after this; by default after 1 s, which costs most of the speed.
    "fetch.queue.backoff.ms": 2,
    "queued.min.messages": 20_000,
    # The end of a partition is told after it; a broker with nothing to say is asked 20 times a second.
    "fetch.wait.max.ms": 50,
    "max.poll.interval.ms": 86_400_000,
}
_CONSUMER_ALWAYS: Mapping[str, object] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
}
_PRODUCER: Mapping[str, object] = {
    "linger.ms": 5,
    "queue.buffering.max.messages": 0,  # bytes bound it
    "queue.buffering.max.kbytes": 65_536,
}
_PRODUCER_ALWAYS: Mapping[str, object] = {
    "delivery.report.only.error": True,
}


class ConnectionMonitor:
    """What a client tells of its connections: the last error, and since when no broker is connected."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.last = ""
        self._clock = clock
        self._down_since: float | None = None
        self._heard_at = 0.0

    def __call__(self, error: KafkaError) -> None:
        """Hear of an error; those of connections come again as long as the client tries in vain."""
        self._heard_at = self._clock()
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = error.str()
        elif self._down_since is None:
            self._down_since = self._heard_at

    def answered(self) -> None:
        """Hear that a broker answered."""
        self._down_since = None

    @property
    def seconds_down(self) -> float:
        """For how long no broker has been connected; 0 where one is, as far as is known."""
        now = self._clock()
        if self._down_since is None or now - self._heard_at > _SILENCE:
            self._down_since = None
            return 0.0
        return now - self._down_since


def admin_client(settings: KafkaSettings, monitor: ConnectionMonitor) -> AdminClient:
    """A client that makes and measures topics. Raises UsageError for settings that it refuses."""
    conf: dict[str, Any] = {**_COMMON, **settings.conf, **_said(settings, monitor)}
    return _made(AdminClient, conf, settings)


def consumer_client(settings: KafkaSettings, monitor: ConnectionMonitor, **more: object) -> Consumer:
    """A client that reads; `more` settings come before all others."""
    conf: dict[str, Any] = {
        **_COMMON,
        **_CONSUMER,
        **settings.conf,
        **_CONSUMER_ALWAYS,
        **more,
        **_said(settings, monitor),
    }
    return _made(Consumer, conf, settings)


def read_committed_client(settings: KafkaSettings, monitor: ConnectionMonitor) -> Consumer:
    """A client that is told of no offset behind an open transaction."""
    return consumer_client(settings, monitor, **{"isolation.level": "read_committed"})


def read_uncommitted_client(settings: KafkaSettings, monitor: ConnectionMonitor) -> Consumer:
    """A client that is told of all offsets."""
    return consumer_client(settings, monitor, **{"isolation.level": "read_uncommitted"})


def producer_client(
    settings: KafkaSettings,
    monitor: ConnectionMonitor,
    on_delivery: Any,
    transactional_id: str | None = None,
    longest: timedelta = timedelta(0),
    *,
    once: bool = True,
) -> Producer:
    """A client that writes; `longest` is how long a transaction may take where there is no trouble. Without `once` the
    client may write a record twice."""
    patience = max(1_000, int(1000 * settings.give_up_after))
    conf: dict[str, Any] = {**_COMMON, **_PRODUCER, **settings.conf, **_PRODUCER_ALWAYS, **_said(settings, monitor)}
    conf["on_delivery"] = on_delivery
    conf["enable.idempotence"] = once
    conf["delivery.timeout.ms"] = patience
    if transactional_id is not None:
        conf["transactional.id"] = transactional_id
        # An outage that is survived must not use up the time of the transaction that it falls into.
        needed = patience + max(60_000, longest // timedelta(milliseconds=1))
        conf["delivery.timeout.ms"] = min(patience, int(conf.setdefault("transaction.timeout.ms", needed)))
    # The client wants no message to expire while it lingers.
    conf["linger.ms"] = min(float(conf["linger.ms"]), conf["delivery.timeout.ms"] - 1)
    return _made(Producer, conf, settings)


def _said(settings: KafkaSettings, monitor: ConnectionMonitor) -> dict[str, Any]:
    return {"bootstrap.servers": settings.servers, "error_cb": monitor, "logger": _LINES}


def _made(kind: Callable[[dict[str, Any]], T], conf: dict[str, Any], settings: KafkaSettings) -> T:
    try:
        return kind(conf)
    except KafkaException as error:
        text = settings.hide(error.args[0].str()).strip()
    except (TypeError, ValueError) as error:
        text = settings.hide(str(error))
    expected = "settings of librdkafka, by their names there, with values that they can have"
    raise UsageError(explain(f"the settings for {settings.url} are refused: {text}", expected, "correct the setting"))
