"""A server of Spark Connect that does not answer: calls of it end with an error, after a bounded time.

PySpark tries each call again for ten minutes, and a job makes many. A run that has no server any more would take hours
to say so. A call that has reached a server which then stands still is not tried again: it would wait for ever.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain

if TYPE_CHECKING:
    from .bindings import DataFrames

CONNECT = "pyspark.sql.connect."
"""How the names of the modules of Spark Connect begin."""
PATIENCE_SECONDS = 60.0
"""How long a call is tried again. Where no call has been answered for so long, later ones are tried once."""
ASK_SECONDS = 10.0
"""The time between two questions that are put to a server beside the calls of a run, to see whether it answers."""
_ASKED = "spark.sql.session.timeZone"
"""A setting that each session has."""


def is_of_connect(given: object) -> bool:
    """Whether a DataFrame, or a session, is one of Spark Connect: this process has no Spark then, but a server's."""
    return type(given).__module__.startswith(CONNECT)


class _Server:
    """The server of a session, and whether it has been given up: one that stands still takes calls, and does not answer
    them."""

    def __init__(self, session: Any, clock: Callable[[], float], patience: float) -> None:
        client = session.client
        # A channel of the user's may have no endpoint.
        self.location = getattr(getattr(client, "_builder", None), "endpoint", None) or client.host
        self.clock, self.patience = clock, patience
        self.lost = self.stands_still = False
        self.refusals = 0
        self._session = session

    def watch(self, over: Event, pause: float) -> None:
        """Ask the server something again and again, until the run is over. If it does not answer, close the connection,
        which ends all calls."""
        while not over.wait(pause):
            asking = Thread(target=self._ask, name="fluvial-connect-question", daemon=True)
            refusals = self.refusals
            asking.start()
            asking.join(self.patience)
            # A question that was refused is asked again, as any call is: that has a bound of its own.
            if asking.is_alive() and self.refusals == refusals and not over.is_set():
                self.lost = self.stands_still = True
                self._session.client.close()
                return

    def _ask(self) -> None:
        with suppress(Exception):  # a call of the run meets the same error, and says so
            self._session.conf.get(_ASKED)

    def problem(self, error: BaseException | None = None) -> SystemProblem:
        """The error of a call that is not tried again, or of one that was ended."""
        details = getattr(error, "details", None)
        said = str(details() if callable(details) else error).partition("\n")[0]
        why = "it takes calls, and stands still" if error is None else said
        wrong = f"the server of Spark Connect has not answered for {self.patience:g} s: {why}"
        remedy = "start the server, make a new session and its DataFrames, and run again: a batch job begins anew"
        return SystemProblem(explain(wrong, "a server that lives as long as the run", remedy, self.location))


class _BoundedPolicy:
    """A policy of PySpark's, by which calls are tried again, with a bound."""

    def __init__(self, policy: Any, server: _Server) -> None:
        self.policy, self._server = policy, server

    def __getattr__(self, name: str) -> Any:
        return getattr(self.policy, name)

    def to_state(self) -> "_BoundedState":
        """What the policy knows of one call."""
        return _BoundedState(self.policy.to_state(), self._server)


class _BoundedState:
    def __init__(self, state: Any, server: _Server) -> None:
        self._state, self._server = state, server
        self._until: float | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._state, name)

    def next_attempt(self, error: BaseException) -> int | None:
        """The ms until the call is tried again. Raises SystemProblem if it is not."""
        now = self._server.clock()
        self._server.refusals += 1
        self._until = now + self._server.patience if self._until is None else self._until
        if self._server.lost or now >= self._until:
            self._server.lost = True
            raise self._server.problem(error)
        wait: int | None = self._state.next_attempt(error)
        return None if wait is None else min(wait, 1 + int((self._until - now) * 1000))


@contextmanager
def bounded_calls(
    frames: "DataFrames",
    clock: Callable[[], float] = time.monotonic,
    *,
    patience: float = PATIENCE_SECONDS,
    pause: float = ASK_SECONDS,
) -> Iterator[None]:
    """While the context is open, let no call of the server of these DataFrames be tried again, nor wait for a server
    that stands still, for longer than `patience` seconds. For a server that was given up that holds from then on, for
    PySpark calls it as this process ends, too. Nothing changes for DataFrames of a Spark of this process."""
    frame = next((one.frame for one in frames.inputs.values() if is_of_connect(one.frame)), None)
    if frame is None:
        yield
        return
    client = frame.sparkSession.client
    # Those of a run that goes on beside this one, in another thread, are not kept.
    policies = [getattr(one, "policy", one) for one in client.get_retry_policies()]
    server, over = _Server(frame.sparkSession, clock, patience), Event()
    client.set_retry_policies([_BoundedPolicy(one, server) for one in policies])
    Thread(target=server.watch, args=(over, pause), name="fluvial-connect-watch", daemon=True).start()
    try:
        yield
    except Exception:
        if server.stands_still:  # what a call says whose connection was closed says less
            raise server.problem() from None
        raise
    finally:
        over.set()
        if not server.lost:
            client.set_retry_policies(policies)
