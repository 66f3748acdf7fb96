"""The journal of a log: one file of entries, which decides what is visible and which offsets records have."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from ....dsl.errors import SystemProblem
from ...data_files import check_owner, make_folder
from . import frames
from .disk import Descriptor, explained, locked, read_all, sync_data, sync_directory, write_all
from .index import Entry, Index, Snapshot

VERSION = 1
# What every process reads when it opens the log, at the least; about 10,000 commits.
COMPACT_BYTES = 1 << 20

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[Entry] = msgspec.msgpack.Decoder(Entry)


class Journal:
    """One reader's and writer's view of a journal. Not for two threads at once, and not over a fork.

    An entry is visible as soon as it is whole in the file, and durable when `add` returns. Entries are added under the
    lock of the log, so their order is the same for everybody. A crash while adding leaves a torn tail, which readers
    ignore and the next writer cuts. Once the file is longer than `compact_bytes` and four times what it says, it is
    replaced by one that starts with a snapshot; readers notice by the file's identity.

    With `create` a missing log is made, else it raises SystemProblem.
    """

    def __init__(
        self, directory: Path, *, create: bool = False, fsync: bool = True, compact_bytes: int = COMPACT_BYTES
    ) -> None:
        self.directory = directory
        self._path = directory / "journal"
        self._lock = directory / "lock"
        self._fsync = fsync
        self._compact_bytes = compact_bytes
        self._snapshot_bytes = 0
        check_owner(directory)
        if not self._path.exists():
            self._make(create)
        self._open()
        self.refresh()

    def refresh(self) -> Index:
        """The index with all that is visible now; costs one `stat` where nothing is new."""
        if not self._follow(alone=False):
            with locked(self._lock):
                self._follow(alone=True)
        return self._index

    @contextmanager
    def exclusive(self) -> Iterator[Index]:
        """Hold the lock of the log, with the index as it is until `add` is called or the lock is left."""
        with locked(self._lock):
            self._follow(alone=True)
            yield self._index

    def add(self, entry: Entry) -> None:
        """Add an entry, durably; only inside `exclusive`."""
        data = frames.make(1, [_encode(entry)])
        with explained("write to", self._path):
            try:
                # A shorter entry must not leave the rest of a torn one behind it.
                os.ftruncate(self._file.number, self._good)
                write_all(self._file.number, data, self._good)
            except OSError:
                os.ftruncate(self._file.number, self._good)
                raise
            if self._fsync:
                sync_data(self._file.number)
        self._good += len(data)
        self._index.apply(entry)
        if self._good > max(self._compact_bytes, 4 * self._snapshot_bytes):
            # The entry is in already, so a full disk is no failure of `add`; the next one tries again.
            with suppress(SystemProblem):
                self._compact()

    def close(self) -> None:
        self._file.close()

    def _make(self, create: bool) -> None:
        if not create:
            raise SystemProblem(
                f"There is no log in {self.directory}. Expected a directory that a producer or `create` has made. "
                "Correct the path, or write to the log first."
            )
        with explained("make", self.directory):
            make_folder(self.directory / "streams")
        with locked(self._lock):
            if not self._path.exists():
                self._replace(Index())

    def _open(self) -> None:
        self._file = Descriptor(self._path, os.O_RDWR)
        self._identity = os.fstat(self._file.number).st_ino
        self._good = 0
        self._index = Index()

    def _follow(self, *, alone: bool) -> bool:
        """Apply what was added since; False where only a reader that holds the lock (`alone`) can tell what it is."""
        with explained("read", self._path):
            found = os.stat(self._path)
            # The old file is still open here, so its number cannot have been given to the new one.
            if found.st_ino != self._identity:
                self._file.close()
                self._open()
                found = os.fstat(self._file.number)
            # Compared with what was understood, not with the last size: a torn tail may be replaced by as many bytes.
            if found.st_size == self._good:
                return True
            data = read_all(self._file.number, found.st_size - self._good, self._good)
        try:
            self._apply_all(data)
        except frames.DamagedFrame as damage:
            if alone and not damage.last:
                raise self._damaged() from damage
            return alone
        return True

    def _apply_all(self, data: bytes) -> None:
        at = 0
        while (frame := frames.take(data, at)) is not None:
            entry = self._decoded(frame.payload)
            if isinstance(entry, Snapshot):
                self._snapshot_bytes = frame.stop
            self._index.apply(entry)
            self._good += frame.stop - at
            at = frame.stop

    def _compact(self) -> None:
        self._replace(self._index)
        index = self._index
        self._file.close()
        self._open()
        self._index = index
        self._good = self._snapshot_bytes

    def _replace(self, index: Index) -> None:
        """Put a journal in place that consists of one snapshot; a crash leaves the old one or the new one."""
        data = frames.make(1, [_encode(index.snapshot(VERSION))])
        new = self._path.with_name("journal.new")
        file = Descriptor(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        with explained("write", new):
            write_all(file.number, data, 0)
            sync_data(file.number)
            file.close()
            os.replace(new, self._path)
        sync_directory(self.directory)
        self._snapshot_bytes = len(data)

    def _decoded(self, payload: memoryview) -> Entry:
        try:
            entry = _decoder.decode(payload)
        except msgspec.DecodeError as error:
            raise self._foreign("unknown") from error
        if isinstance(entry, Snapshot) and entry.version != VERSION:
            raise self._foreign(str(entry.version))
        return entry

    def _foreign(self, version: str) -> SystemProblem:
        return SystemProblem(
            f"The log in {self.directory} has the format {version}, expected {VERSION}. "
            "It was written by another version of this library: use that version, or another directory."
        )

    def _damaged(self) -> SystemProblem:
        return SystemProblem(
            f"The journal {self._path} is damaged at byte {self._good}: the check sum of that entry does not match, "
            "and entries follow it. Expected a file that only this library writes. Restore the log from a copy, or "
            "move it away and produce its streams again."
        )
