"""A store and a log that tell what is asked of them before they do it: a test notes it, or fails there."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from fluvial.runtime.kernel.state_backend import Change
from fluvial.runtime.state import TaskStore
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.log.producer import LogProducer

Told = Callable[[str], None]
"""Is given the name of each call. What it raises comes out of that call."""


class WatchedStore:
    """All else is as in the store that it stands for. `written` has the changes of each write."""

    def __init__(self, store: TaskStore, told: Told = lambda _: None) -> None:
        self.written: list[list[Change]] = []
        self._store = store
        self._told = told

    def get(self, prefix: bytes, key: bytes) -> bytes | None:
        self._told("get")
        return self._store.get(prefix, key)

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        self._told("scan")
        return self._store.scan(prefix)

    def holds(self, prefix: bytes) -> bool:
        self._told("holds")
        return self._store.holds(prefix)

    def prefixes(self, start: bytes) -> Iterator[bytes]:
        self._told("prefixes")
        return self._store.prefixes(start)

    def write(self, changes: Iterable[Change]) -> None:
        self._told("write")
        self.written.append([*changes])
        self._store.write(self.written[-1])

    def clear(self) -> None:
        self._told("clear")
        self._store.clear()

    def sync(self) -> None:
        self._told("sync")
        self._store.sync()

    def close(self) -> None:
        self._told("close")
        self._store.close()


class WatchedLog(LogSystem):
    """A log of a folder, whose producers tell each `publish`."""

    def __init__(self, directory: str | Path, told: Told, *, fsync: bool = False) -> None:
        super().__init__(directory, fsync=fsync)
        self._told = told

    def producer(self, name: str = "") -> LogProducer:
        return _WatchedProducer(self.directory, name or self._new_writer(), self.fsync, self._told)


class _WatchedProducer(LogProducer):
    def __init__(self, directory: Path, writer: str, fsync: bool, told: Told) -> None:
        super().__init__(directory, writer=writer, fsync=fsync)
        self._told = told

    def publish(self, token: bytes) -> None:
        self._told("publish")
        super().publish(token)
