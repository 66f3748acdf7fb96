"""A store on disk: one RocksDB for each task."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from rocksdict import Options, Rdict, WriteBatch

from ...dsl.errors import SystemProblem
from ..kernel.state import Change

_BUFFER_BYTES = 32 << 20


class RocksStore:
    """Entries in a RocksDB folder, which one process may hold open at a time. Writes are durable after a crash of the
    process: RocksDB's own log keeps them."""

    def __init__(self, folder: Path) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_max_background_jobs(2)
        options.set_write_buffer_size(_BUFFER_BYTES)
        options.set_keep_log_file_num(2)
        try:
            self._db = Rdict(str(folder), options)
        except Exception as error:
            problem = f"the store in {folder} cannot be opened: {error}"
            expected = "a folder that no other process has open"
            remedy = "stop the other run of this pipeline, or give this one another state_dir"
            raise SystemProblem(f"{problem}\n  expected: {expected}\n  to do: {remedy}") from None

    def get(self, key: bytes) -> bytes | None:
        found: bytes | None = self._db.get(key)
        return found

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        for key, value in self._db.items(from_key=start):
            if key >= stop:
                return
            yield key, value

    def write(self, changes: Iterable[Change]) -> None:
        batch = WriteBatch(raw_mode=True)
        for key, value in sorted_last(changes):
            if value is None:
                batch.delete(key)
            else:
                batch.put(key, value)
        self._db.write(batch)

    def close(self) -> None:
        self._db.close()


def sorted_last(changes: Iterable[Change]) -> list[Change]:
    """The last change of each key, by key: RocksDB takes sorted keys faster."""
    return sorted(dict(changes).items())
