"""A store on disk: one RocksDB database for each task."""

import logging
import os
import re
import shutil
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache, partial
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from rocksdict import BlockBasedOptions, Cache, Options, Rdict, WriteBatch

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain
from ..kernel.state_backend import PREFIX_SIZE, Change
from ..process.data_files import make_folder, write_file
from ..process.resource_limits import remedy_for

BUFFER_BYTES = 32 << 20
"""The size of a write buffer. RocksDB writes a full one to a file while it fills another."""
CACHE_BYTES = 128 << 20
"""The size of the cache of file blocks, which all stores of a process share."""
# So many keys are held in memory at most. A deleted range needs none, but slows later reads.
_FEW = 10_000
_FILTER_BITS = 10
"""Bits of the Bloom filter for each key in files: one lookup of a missing key in a hundred reads a block."""
_FILTER_SHARE = 0.05
"""The share of a write buffer for the Bloom filter of its keys."""
_DENIED = re.compile("permission denied|operation not permitted|read-only file system")
_log = logging.getLogger(__name__)


class StoreLocked(SystemProblem):
    """Another process, perhaps a paused one, has the folder of a store open."""


class RocksStore:
    """Entries in a RocksDB folder, which one process may hold open at a time. Writes are durable after a crash of the
    process: RocksDB's own log keeps them.

    With `spare` the entries have a copy elsewhere: a damaged folder is removed, and the store begins empty.

    It uses memory for up to two write buffers of `buffer_bytes` each, for its part of the `cache_bytes` that the stores
    of a process share, and for filters and indexes of its files, about two bytes a key.

    Raises StoreLocked if another process has the folder open, SystemProblem if the folder cannot be used.
    """

    def __init__(
        self,
        folder: Path,
        *,
        spare: bool = False,
        buffer_bytes: int = BUFFER_BYTES,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self._folder = folder
        self._buffer_bytes, self._cache_bytes = buffer_bytes, cache_bytes
        self._spare = spare
        self._closed = False
        self._damaged = folder.parent / f"{folder.name}.damaged"
        try:
            make_folder(folder)
        except OSError as error:
            raise self._unopened(error) from None
        if spare and self._damaged.exists():
            self._give_up(self._damaged.read_text())
        try:
            try:
                self._db = self._open()
            except Exception as error:
                if not spare or not _is_damage(error):
                    raise
                self._give_up(str(error))
                self._db = self._open()
        except Exception as error:
            raise self._unopened(error) from None

    def _open(self) -> Rdict:
        make_folder(self._folder)  # RocksDB sets no permissions on its files, so the folder is private
        # Keys and values are bytes already. In its other mode rocksdict encodes them, and a put takes twice as long.
        options = Options(raw_mode=True)
        options.create_if_missing(True)
        # Each task has a store: more threads would take the processors from the tasks.
        options.set_max_background_jobs(2)
        options.set_write_buffer_size(self._buffer_bytes)
        # RocksDB begins a log with each start, and keeps 1,000 of them by default.
        options.set_keep_log_file_num(2)
        # Many lookups are of keys that are new in their window. Filters answer these without a search: 2 us, not 16.
        blocks = BlockBasedOptions()
        blocks.set_bloom_filter(_FILTER_BITS, block_based=False)
        blocks.set_block_cache(block_cache(self._cache_bytes))
        options.set_block_based_table_factory(blocks)
        options.set_memtable_whole_key_filtering(True)
        options.set_memtable_prefix_bloom_ratio(_FILTER_SHARE)
        return Rdict(str(self._folder), options)

    def _give_up(self, why: str) -> None:
        _log.warning("the store in %s is damaged and will be rebuilt: %s", self._folder, why)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._damaged.unlink(missing_ok=True)

    def _unopened(self, error: Exception) -> SystemProblem:
        problem = f"the store in {self._folder} cannot be opened: {error}"
        expected = "a store that is whole"
        if (remedy := remedy_for(error)) is not None:
            expected = "disk space and open files to spare"
        elif _is_locked(error):
            expected = "a folder that no other process has open"
            remedy = "stop the other run of this pipeline, or give this one another state_dir"
            return StoreLocked(explain(problem, expected, remedy, self._folder))
        else:
            remedy = "check the disk; bring the folder back from a copy taken with the log"
        return SystemProblem(explain(problem, expected, remedy, self._folder))

    def get(self, prefix: bytes, key: bytes) -> bytes | None:
        """The value of a key under a prefix; None if there is none. Raises SystemProblem if it cannot be read."""
        try:
            value: bytes | None = self._db.get(prefix + key)
        except Exception as error:
            raise self._problem("read", error) from error
        return value

    def scan(self, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries under a prefix, in the order of their keys, as they were when the first was read."""
        for key, value in self._walk(self._db.items, prefix):
            if not key.startswith(prefix):
                return
            yield key[len(prefix) :], value

    def holds(self, prefix: bytes) -> bool:
        """Whether there are entries under a prefix: the first key from there on tells."""
        return next(self._walk(self._db.keys, prefix), b"").startswith(prefix)

    def prefixes(self, start: bytes) -> Iterator[bytes]:
        """Each prefix is found by a seek behind the last one."""
        size, seek = len(start) + PREFIX_SIZE, start
        while (key := next(self._walk(self._db.keys, seek), None)) is not None and key.startswith(start):
            yield key[:size]
            seek = key[: size - 1] + bytes([key[size - 1] + 1])

    def _walk(self, entries: Callable[..., Any], seek: bytes | None) -> Iterator[Any]:
        """The keys or entries of RocksDB from a key on."""
        try:
            yield from entries(from_key=seek)
        except Exception as error:
            raise self._problem("read", error) from error

    def write(self, changes: Iterable[Change]) -> None:
        """Make the changes in one write of RocksDB: all or none. Raises SystemProblem if it fails."""
        batch = WriteBatch(raw_mode=True)
        last: defaultdict[bytes, dict[bytes, bytes | None]] = defaultdict(dict)
        for prefix, key, value in changes:
            if key is None:
                last.pop(prefix, None)
                self._forget(batch, prefix)
            else:
                last[prefix][key] = value
        for prefix in sorted(last):
            _add(batch, prefix, last[prefix])
        try:
            self._db.write(batch)
        except Exception as error:
            raise self._problem("written to", error) from error

    def _forget(self, batch: WriteBatch, prefix: bytes) -> None:
        """Delete the entries under a prefix. A few are deleted one by one, since deleted ranges slow later reads."""
        keys = takewhile(lambda key: key.startswith(prefix), self._walk(self._db.keys, prefix))
        few = list(islice(keys, _FEW + 1))
        if len(few) > _FEW:
            batch.delete_range(prefix, _after(prefix))
        else:
            for key in few:
                batch.delete(key)

    def clear(self) -> None:
        """Delete all entries."""
        # The folder stays open: if it were closed, another process that waits for it could open it.
        last = next(self._walk(partial(self._db.keys, backwards=True), None), None)
        if last is None:
            return
        batch = WriteBatch(raw_mode=True)
        batch.delete_range(b"", last + b"\0")
        try:
            self._db.write(batch)
            self._db.compact_range(None, None)  # else the disk space is freed only when RocksDB compacts by itself
        except Exception as error:
            raise self._problem("cleared", error) from error

    def remove(self) -> None:
        """Close the store, and remove its folder."""
        # Renamed first: once it is closed, another process may open the folder by its name.
        removed = self._folder.with_name(f"{self._folder.name}.removed-{os.getpid()}")
        with suppress(OSError):
            self._folder.rename(removed)
        self.close()
        shutil.rmtree(removed, ignore_errors=True)

    def sync(self) -> None:
        """Make all writes survive a power cut too. Raises SystemProblem if that fails."""
        try:
            self._db.flush_wal(sync=True)
        except Exception as error:
            raise self._problem("written to", error) from error

    def _problem(self, what: str, error: Exception) -> SystemProblem:
        problem = f"the store in {self._folder} cannot be {what}: {error}"
        expected = "a local disk with free space, and a folder that only this library writes"
        remedy = "check the disk; if it is damaged, bring the folder back from a copy taken with the log"
        if (more := remedy_for(error)) is not None:
            remedy = more
        elif self._spare and "corruption" in str(error).lower():
            with suppress(OSError):  # without this file the next start detects the damage itself
                write_file(self._damaged, str(error).encode())
            remedy = "check the disk, and start again: the store will be rebuilt from its changelog"
        return SystemProblem(explain(problem, expected, remedy, self._folder))

    def close(self) -> None:
        """Close the folder, unless it is closed. It never raises, so that it hides no earlier error. A failed close
        loses nothing: RocksDB's own log has all writes."""
        if self._closed:
            return
        self._closed = True
        try:
            self._db.close()
        except Exception as error:
            _log.warning("the store in %s could not be closed: %s", self._folder, error)


@lru_cache(maxsize=1)
def block_cache(size: int) -> Cache:
    """The block cache that the stores of this process share, of so many bytes."""
    return Cache(size)


def _add(batch: WriteBatch, prefix: bytes, last: dict[bytes, bytes | None]) -> None:
    """Add the last change of each key under a prefix to a batch. The keys are sorted, since RocksDB writes these
    faster."""
    for key in sorted(last):
        value = last[key]
        if value is None:
            batch.delete(prefix + key)
        else:
            batch.put(prefix + key, value)


def _after(prefix: bytes) -> bytes:
    """The first key behind all that begin with a prefix. The prefix must not end with the byte 255."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _is_damage(error: Exception) -> bool:
    """Whether the files of a store are damaged. If the machine refuses to open them, they may be intact."""
    return remedy_for(error) is None and not _is_locked(error) and not _DENIED.search(str(error).lower())


def _is_locked(error: Exception) -> bool:
    """Whether an error says that another process has locked a store. `lock` is a whole word in it, not part of
    `block`."""
    return re.search(r"\block\b", str(error).lower()) is not None
