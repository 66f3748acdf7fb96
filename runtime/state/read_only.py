"""A read-only view of a store on disk, which another process may have open for writing."""

from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rocksdict import AccessType, Options, Rdict

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain


class StoreView:
    """The entries of a RocksDB folder at the time of the call. Raises SystemProblem if it cannot be read."""

    def __init__(self, folder: Path) -> None:
        try:
            self._db = Rdict(str(folder), Options(raw_mode=True), access_type=AccessType.read_only())
        except Exception as error:
            wrong = f"the store in {folder} cannot be read: {error}"
            raise SystemProblem(explain(wrong, "a store that is whole", "check the disk", folder)) from None

    def get(self, prefix: bytes, key: bytes) -> bytes | None:
        """The value of a key under a prefix; None if there is none."""
        value: Any = self._db.get(prefix + key)
        return value if isinstance(value, bytes) else None

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries under a prefix, in the order of their keys: (key without the prefix, value)."""
        entries: Any = self._db.items(from_key=prefix)  # keys and values are bytes in raw mode
        for key, value in entries:
            if not key.startswith(prefix):
                return
            yield key[len(prefix) :], value

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, type_: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._db.close()
