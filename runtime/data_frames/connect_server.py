"""A server of Spark Connect that does not answer: calls of it end with an error, after a bounded time.

PySpark tries each call again for ten minutes, and a job makes many. A run that has no server any more would take hours
to say so.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain

if TYPE_CHECKING:
    from .bindings import DataFrames

CONNECT = "pyspark.sql.connect."
"""How the names of the modules of Spark Connect begin."""
PATIENCE_SECONDS = 60.0
"""How long a call is tried again. Where no call has been answered for so long, later ones are tried once."""


def is_of_connect(given: object) -> bool:
    """Whether a DataFrame, or a session, is one of Spark Connect: this process has no Spark then, but a server's."""
    return type(given).__module__.startswith(CONNECT)


class _Server:
    """The server of a session, and whether it has been given up."""

    def __init__(self, client: Any, clock: Callable[[], float]) -> None:
        # A channel of the user's may have no endpoint.
        self.place = getattr(getattr(client, "_builder", None), "endpoint", None) or client.host
        self.clock, self.lost = clock, False

    def problem(self, error: BaseException) -> SystemProblem:
        """The error of a call that is not tried again."""
        details = getattr(error, "details", None)
        said = str(details() if callable(details) else error).partition("\n")[0]
        wrong = f"the server of Spark Connect has not answered for {PATIENCE_SECONDS:g} s: {said}"
        remedy = "start the server, make a new session and its DataFrames, and run again: a batch job begins anew"
        return SystemProblem(explain(wrong, "a server that lives as long as the run", remedy, self.place))


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
        self._until = now + PATIENCE_SECONDS if self._until is None else self._until
        if self._server.lost or now >= self._until:
            self._server.lost = True
            raise self._server.problem(error)
        wait: int | None = self._state.next_attempt(error)
        return None if wait is None else min(wait, 1 + int((self._until - now) * 1000))


@contextmanager
def bounded_calls(frames: "DataFrames", clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
    """While the context is open, let no call of the server of these DataFrames be tried again for longer than
    `PATIENCE_SECONDS`. For a server that was given up that holds from then on, for PySpark calls it as this process
    ends, too. Nothing changes for DataFrames of a Spark of this process."""
    frame = next((one.frame for one in frames.inputs.values() if is_of_connect(one.frame)), None)
    if frame is None:
        yield
        return
    client = frame.sparkSession.client
    # Those of a run that goes on beside this one, in another thread, are not kept.
    policies = [getattr(one, "policy", one) for one in client.get_retry_policies()]
    server = _Server(client, clock)
    client.set_retry_policies([_BoundedPolicy(one, server) for one in policies])
    try:
        yield
    finally:
        if not server.lost:
            client.set_retry_policies(policies)
