"""Where the streams end that a container reads: asked for without keeping its loop waiting."""

from collections.abc import Iterable
from threading import Thread

from ....dsl.errors import SystemProblem
from ...systems.contract import Admin


class Ends:
    """Asks an admin for the ends of streams; `apart` in a thread, as is good where the answer may take long, with an
    admin that nobody else uses."""

    def __init__(self, admin: Admin, *, apart: bool = False) -> None:
        self._admin = admin
        self._apart = apart
        self._thread: Thread | None = None
        self._latest: dict[str, list[int]] | None = None

    def ask(self, streams: Iterable[str]) -> None:
        """Ask anew, unless the answer to the last question is still to come."""
        if not self.answered:
            return
        if not self._apart:
            self._ask([*streams])
            return
        self._thread = Thread(target=self._ask, args=([*streams],), name="fluvial-ends", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the answer, but no longer than that."""
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def answered(self) -> bool:
        """Whether the last question was answered."""
        return self._thread is None or not self._thread.is_alive()

    @property
    def latest(self) -> dict[str, list[int]] | None:
        """The ends by stream, as the last answer told them; None before it has come, and where the system could not
        tell: one that is away is for those who read from it to meet."""
        return self._latest if self.answered else None

    def _ask(self, streams: list[str]) -> None:
        try:
            self._latest = {stream: self._admin.ends(stream) for stream in streams}
        except SystemProblem:
            self._latest = None
