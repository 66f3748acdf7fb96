"""Requests to a cluster. A request is repeated for a bounded time while the cluster is out of reach."""

import os
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock, Thread
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from ...process.machine import THIS_MACHINE, Machine
from .clients import ConnectionMonitor, admin_client
from .errors import OUTDATED, RETRIED, TRANSIENT, UNREACHED, out_of_reach, refused
from .settings import KafkaSettings

T = TypeVar("T")
Client = TypeVar("Client", AdminClient, Consumer)
Maker = Callable[[KafkaSettings, ConnectionMonitor], Client]
"""Makes the client that sends the request."""

# Once a broker is back, a request waits a second more at most; one that starts is not asked more often than that.
_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_ONE_REQUEST = 10.0
"""The longest time that one attempt waits for its answer; at most half of the time there is, so that there are two."""
# Not for ever: if it fails too, the request that follows says why.
_TO_REFRESH = 1.0

NEVER = 3600.0
"""The timeout of administrative requests in librdkafka, in seconds: the longest that it accepts. If an answer arrives
at the moment of the timeout, librdkafka frees memory that it still uses, and aborts the process. So every request has
this timeout, and `answer` stops waiting earlier. The request then stays open, and its answer is ignored."""


class Unanswered(KafkaException):
    """No answer has come within the time that one attempt has."""


class RequestClient:
    """Sends requests with one client of each kind, which the first request makes. Threads may share it."""

    def __init__(self, settings: KafkaSettings, machine: Machine = THIS_MACHINE) -> None:
        self._settings = settings
        self._clock, self._sleep = machine.clock, machine.sleep
        self._monitor = ConnectionMonitor(machine.clock)
        self._clients: dict[tuple[int, object], Any] = {}
        self._lock = Lock()
        self.answered = False

    def request(self, what: str, call: Callable[[AdminClient, float], T]) -> T:
        """Return what `call` returns. It is given a client and the seconds that the answer may take.

        Raises SystemProblem where the cluster stays out of reach, or refuses. The first request is repeated for
        `reach_within`, later ones for `give_up_after`, since a broker that answered before usually returns. That time
        starts again when a broker answers after an outage: it may not know its topics yet. `what` completes the
        sentence "the cluster would not".
        """
        return self.request_by(admin_client, what, call)

    def send(self, call: Callable[[AdminClient], Future[T]]) -> Future[T]:
        """Send a request without waiting for its answer."""
        client = self._client(admin_client)
        future = call(client)
        _hold(client, future)
        return future

    def request_by(
        self, make: Maker[Client], what: str, call: Callable[[Client, float], T], *, patience: float | None = None
    ) -> T:
        """Like `request`, with a client that `make` makes, and for `patience` seconds if given."""
        client = self._client(make)
        if patience is None:
            patience = self._settings.give_up_after if self.answered else self._settings.reach_within
        deadline, pause, back = self._clock() + patience, _FIRST_PAUSE, _Back()
        longest = min(_ONE_REQUEST, patience / 2)
        while True:
            left = deadline - self._clock()
            try:
                answer = call(client, min(max(left, 0.1), longest))
            except KafkaException as caught:
                error = caught.args[0]
                client.poll(0)  # runs the error callback, which feeds the monitor
                if back.seen(error.code()):
                    deadline = self._clock() + patience
                late = self._clock() + pause > deadline
                if late and error.code() in TRANSIENT:
                    raise out_of_reach(self._settings, patience, self._monitor.last or error.str()) from None
                if late or error.code() not in RETRIED:
                    raise refused(self._settings, what, error) from None
                if isinstance(caught, Unanswered) and not self._monitor.seconds_down:
                    client = self._replaced(make, client)
                elif error.code() in OUTDATED:
                    _refresh(client)
            else:
                self.answered = True
                return answer
            self._sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _client(self, make: Maker[Client]) -> Client:
        # A client works only in the process that made it, and cannot be closed in a child process.
        mine = os.getpid(), make
        with self._lock:
            if mine not in self._clients:
                self._clients[mine] = make(self._settings, self._monitor)
            client: Client = self._clients[mine]
            return client

    def _replaced(self, make: Maker[Client], silent: Client) -> Client:
        """A new client for one that is connected and has no answer: a broker answers the requests of a connection in
        their order, and one that stood still can owe the first of them for a minute."""
        with self._lock:
            mine = os.getpid(), make
            if self._clients.get(mine) is silent:  # no other thread has replaced it
                del self._clients[mine]
        return self._client(make)


class _Back:
    """Notices once in a request that brokers answer again after an outage. Only once, so that the request ends."""

    def __init__(self) -> None:
        self._away = self._seen = False

    def seen(self, code: int) -> bool:
        """Whether an error comes from a broker, and is the first to do so after errors of an unreachable cluster."""
        back = self._away and code not in UNREACHED and not self._seen
        self._away = code in UNREACHED
        self._seen = self._seen or back
        return back


def answer(client: AdminClient, asked: Future[T], seconds: float) -> T:
    """Wait for the answer to a request. A request that takes too long stays open, and its answer is ignored.

    Raises Unanswered after `seconds`.
    """
    try:
        return asked.result(seconds)
    except TimeoutError:
        raise Unanswered(KafkaError(KafkaError._TIMED_OUT, f"no answer within {seconds:.3g} s")) from None
    finally:
        _hold(client, asked)


def _hold(client: AdminClient, asked: Future[Any]) -> None:
    """Keep a reference to a client until its request is answered, for it must not be closed before. A daemon thread
    holds the reference, so that the end of this process neither waits for the answer nor closes the client."""

    def hold(_: AdminClient) -> None:
        with suppress(Exception):  # whoever asked has seen its error, or waits no longer
            asked.result()

    if not asked.done():
        Thread(target=hold, args=(client,), name="fluvial-request", daemon=True).start()


def _refresh(client: AdminClient | Consumer) -> None:
    """Make a client fetch the metadata of the cluster again. A restarted broker may report no controller, for which the
    client then waits without asking again, or too few partitions, which the client then keeps for 15 minutes."""
    with suppress(KafkaException):
        client.list_topics(timeout=_TO_REFRESH)
