"""Requests to a cluster: asked again while it is away, for a bounded time."""

import os
import time
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from .clients import Watch, admin_client
from .problems import TRANSIENT, out_of_reach, refused
from .settings import KafkaSettings

T = TypeVar("T")
Request = Callable[[AdminClient, float], T]
"""What asks, given a client and the seconds that the answer may take."""

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 1.0
_ONE_REQUEST = 10.0


class Asking:
    """One client for requests, made with the first of them; can be shared by threads."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._watch = Watch()
        self._client: AdminClient | None = None
        self._lock = Lock()
        self._process = 0
        self.answered = False

    def ask(self, what: str, request: Request[T], *, patience: float | None = None) -> T:
        """What the request returns. Raises SystemProblem where the cluster stays out of reach, or refuses.

        The first request waits for `reach_within`, those after it for `give_up_after`: a broker that was there comes
        back. `what` completes "the cluster would not".
        """
        client = self._made()
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

    def _made(self) -> AdminClient:
        with self._lock:
            if self._client is None or self._process != os.getpid():  # a client does not survive a fork
                self._client, self._process = admin_client(self._settings, self._watch), os.getpid()
            return self._client
