"""Requests to a cluster: asked again while it is away, for a bounded time."""

import os
import time
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException
from confluent_kafka.admin import AdminClient

from .clients import Watch, admin_client
from .problems import TRANSIENT, out_of_reach, refused
from .settings import KafkaSettings

T = TypeVar("T")
Client = TypeVar("Client", AdminClient, Consumer)
Maker = Callable[[KafkaSettings, Watch], Client]
"""Makes the client that is to be asked."""

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_ONE_REQUEST = 10.0


class Asking:
    """One client of a kind for requests, made with the first of them; can be shared by threads."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._watch = Watch()
        self._clients: dict[tuple[int, object], Any] = {}
        self._lock = Lock()
        self.answered = False

    def ask(self, what: str, request: Callable[[AdminClient, float], T], *, patience: float | None = None) -> T:
        """What the request returns, which is given a client and the seconds that the answer may take. Raises
        SystemProblem where the cluster stays out of reach, or refuses.

        The first request waits for `reach_within`, those after it for `give_up_after`: a broker that was there comes
        back. `what` completes "the cluster would not".
        """
        return self.ask_by(admin_client, what, request, patience=patience)

    def ask_by(
        self, make: Maker[Client], what: str, request: Callable[[Client, float], T], *, patience: float | None = None
    ) -> T:
        """The same, by another client than one for administration."""
        client = self._made(make)
        if patience is None:
            patience = self._settings.give_up_after if self.answered else self._settings.reach_within
        deadline, pause = time.monotonic() + patience, _FIRST_PAUSE
        while True:
            left = deadline - time.monotonic()
            try:
                answer = request(client, min(max(left, 0.1), _ONE_REQUEST))
            except KafkaException as caught:
                error = caught.args[0]
                client.poll(0)  # else the watch hears of nothing
                if error.code() not in TRANSIENT:
                    raise refused(self._settings, what, error) from None
                if time.monotonic() + pause > deadline:
                    raise out_of_reach(self._settings, patience, self._watch.last or error.str()) from None
            else:
                self.answered = True
                return answer
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _made(self, make: Maker[Client]) -> Client:
        # A client does not survive a fork, nor can it be let go of there.
        mine = os.getpid(), make
        with self._lock:
            if mine not in self._clients:
                self._clients[mine] = make(self._settings, self._watch)
            client: Client = self._clients[mine]
            return client
