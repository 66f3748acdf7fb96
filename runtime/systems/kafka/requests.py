"""Requests to a cluster: asked again while it is away, for a bounded time."""

import os
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from .clients import ConnectionMonitor, admin_client
from .errors import OUTDATED, RETRIED, TRANSIENT, UNREACHED, out_of_reach, refused
from .settings import KafkaSettings

T = TypeVar("T")
Client = TypeVar("Client", AdminClient, Consumer)
Maker = Callable[[KafkaSettings, ConnectionMonitor], Client]
"""Makes the client that is to be asked."""

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_ONE_REQUEST = 10.0
_TO_REFRESH = 1.0

NEVER = 3600.0
"""Seconds after which librdkafka gives up a request of administration: the longest that it takes. Where the answer
comes at that moment, librdkafka frees what it still needs, and aborts the process. So every request has this timeout,
and `answer` stops waiting earlier: the request goes on, and what comes of it is nobody's."""


class RequestClient:
    """One client of a kind for requests, made with the first of them; can be shared by threads."""

    def __init__(
        self,
        settings: KafkaSettings,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._clock, self._sleep = clock, sleep
        self._monitor = ConnectionMonitor()
        self._clients: dict[tuple[int, object], Any] = {}
        self._lock = Lock()
        self.answered = False

    def request(self, what: str, call: Callable[[AdminClient, float], T]) -> T:
        """What the request returns, which is given a client and the seconds that the answer may take. Raises
        SystemProblem where the cluster stays out of reach, or refuses.

        The first request waits for `reach_within`, those after it for `give_up_after`: a broker that was there comes
        back. It has that time once more where it is back, and does not know its topics yet. `what` completes "the
        cluster would not".
        """
        return self.request_by(admin_client, what, call)

    def send(self, call: Callable[[AdminClient], Future[T]]) -> Future[T]:
        """Send a request without waiting for its answer."""
        client = self._made(admin_client)
        future = call(client)
        _hold(client, future)
        return future

    def request_by(
        self, make: Maker[Client], what: str, call: Callable[[Client, float], T], *, patience: float | None = None
    ) -> T:
        """The same, by another client than one for administration."""
        client = self._made(make)
        if patience is None:
            patience = self._settings.give_up_after if self.answered else self._settings.reach_within
        deadline, pause, back = self._clock() + patience, _FIRST_PAUSE, _Back()
        while True:
            left = deadline - self._clock()
            try:
                answer = call(client, min(max(left, 0.1), _ONE_REQUEST))
            except KafkaException as caught:
                error = caught.args[0]
                client.poll(0)  # else the watch hears of nothing
                if back.seen(error.code()):
                    deadline = self._clock() + patience
                late = self._clock() + pause > deadline
                if late and error.code() in TRANSIENT:
                    raise out_of_reach(self._settings, patience, self._monitor.last or error.str()) from None
                if late or error.code() not in RETRIED:
                    raise refused(self._settings, what, error) from None
                if error.code() in OUTDATED:
                    _refresh(client)
            else:
                self.answered = True
                return answer
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _made(self, make: Maker[Client]) -> Client:
        # A client does not survive a fork, nor can it be let go of there.
        mine = os.getpid(), make
        with self._lock:
            if mine not in self._clients:
                self._clients[mine] = make(self._settings, self._monitor)
            client: Client = self._clients[mine]
            return client


class _Back:
    """Whether brokers have come back after they could not be reached: seen once in a request, which must end."""

    def __init__(self) -> None:
        self._away = self._seen = False

    def seen(self, code: int) -> bool:
        """Whether an error is the first one that a broker has told after others that none has."""
        back = self._away and code not in UNREACHED and not self._seen
        self._away = code in UNREACHED
        self._seen = self._seen or back
        return back


def answer(client: AdminClient, asked: Future[T], seconds: float) -> T:
    """The answer to a request; one that takes too long stays under way, and its answer is nobody's."""
    try:
        return asked.result(seconds)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {seconds:.3g} s")) from None
    finally:
        _hold(client, asked)


def _hold(client: AdminClient, asked: Future[Any]) -> None:
    """Keep a client until a request of it has been answered, for it must not be closed before. A daemon thread keeps
    it, so that the end of this process neither waits for the answer nor closes the client."""

    def hold(_: AdminClient) -> None:
        with suppress(Exception):
            asked.result()

    if not asked.done():
        Thread(target=hold, args=(client,), name="fluvial-request", daemon=True).start()


def _refresh(client: AdminClient | Consumer) -> None:
    """Have a client learn anew which brokers and partitions there are. One that was told of no controller, by a broker
    that had just come back, waits for one, and does not ask; one that was told of fewer partitions goes by that for a
    quarter of an hour."""
    with suppress(KafkaException):
        client.list_topics(timeout=_TO_REFRESH)
