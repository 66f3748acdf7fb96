"""The end offsets of the streams that a run reads, fetched without blocking the run."""

from collections.abc import Iterable
from threading import Thread
from typing import Protocol

from ...dsl.errors import SystemProblem


class _Streams(Protocol):
    """What tells the end offsets of streams."""

    def ends(self, stream: str) -> list[int]:
        """The end offset of each partition of a stream."""
        ...


class EndOffsets:
    """Fetches end offsets through an admin. With `threaded` it fetches in a thread, and needs an admin of its own: for
    systems whose answer may take long."""

    def __init__(self, admin: _Streams, *, threaded: bool = False) -> None:
        self._admin = admin
        self._threaded = threaded
        self._thread: Thread | None = None
        self._latest: dict[str, list[int]] | None = None

    def request(self, streams: Iterable[str]) -> None:
        """Request the end offsets of streams, unless the last request has no answer yet."""
        if not self.answered:
            return
        if not self._threaded:
            self._fetch([*streams])
            return
        self._thread = Thread(target=self._fetch, args=([*streams],), name="fluvial-ends", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the answer, at most so many seconds."""
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def answered(self) -> bool:
        """Whether the last request was answered."""
        return self._thread is None or not self._thread.is_alive()

    @property
    def latest(self) -> dict[str, list[int]] | None:
        """The end offsets of the last answer, by stream and partition. None before the first answer, and if the system
        is out of reach: the consumer raises that error."""
        return self._latest if self.answered else None

    def _fetch(self, streams: list[str]) -> None:
        try:
            self._latest = {stream: self._admin.ends(stream) for stream in streams}
        except SystemProblem:
            self._latest = None
