"""The journal of a log: one file of entries, which say which records are visible, and at which offsets."""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from ....dsl.errors import SystemProblem
from ...process.data_files import check_owner, make_folder
from . import frames, marks
from .disk import Descriptor, exists, explained, locked, read_all, sync_data, write_all
from .errors import absent, damaged, gone, lost, unknown_format
from .index import JournalEntry, LogIndex, Snapshot

# 2: the lock and the segments have marks (decision 0022). A log with a higher number is refused.
VERSION = 2
# The first version has no marks. It is read, and replaced when the first entry is added.
_MARKED = 2
# A journal shorter than this is not compacted: every process reads it when it opens the log. About 10,000 commits.
COMPACT_BYTES = 1 << 20

_encode = msgspec.msgpack.Encoder().encode
_decoder: msgspec.msgpack.Decoder[JournalEntry] = msgspec.msgpack.Decoder(JournalEntry)


class Journal:
    """A journal, open for reading and writing. Not for two threads at once, nor across a fork.

    An entry is visible as soon as it is whole in the file, and durable when `add` returns. Entries are added under the
    lock of the log, so their order is the same for everybody. A crash while adding leaves a torn tail, which readers
    ignore and the next writer cuts. Once the file is longer than `compact_bytes` and than four snapshots, a
    file with a snapshot replaces it. Readers notice that by the inode of the file.

    Marks outside of the journal distinguish a tail that a crash has torn from committed entries that are missing.
    Missing entries raise SystemProblem, unless `lenient` accepts the loss.

    With `create` a missing log is made, else it raises SystemProblem.
    """

    def __init__(
        self,
        directory: Path,
        *,
        create: bool = False,
        fsync: bool = True,
        compact_bytes: int = COMPACT_BYTES,
        lenient: bool = False,
    ) -> None:
        self.directory = directory
        self._path = directory / "journal"
        self._lock = directory / "lock"
        self._fsync = fsync
        self._compact_bytes = compact_bytes
        self._lenient = lenient
        self._least, self._witness = 0, self._lock
        self._marks_read = b""
        self._marks_position: int | None = None
        self._mark_slot = 0
        check_owner(directory)
        if not exists(self._path):
            self._make(create)
        self._marks = Descriptor(self._lock, os.O_RDWR | os.O_CREAT)
        self._held: int | None = None
        self._open()
        self.refresh()
        if self._version >= _MARKED and not lenient:
            self._survey()

    @property
    def position(self) -> int:
        """The number of the last entry that was read, counted from the first entry of the log."""
        return self._position

    @property
    def removed(self) -> bool:
        """Whether the log was removed, or another one was made in its directory."""
        try:
            # The lock is never replaced, and it is open here, so no other file can have its number.
            return os.stat(self._lock).st_ino != os.fstat(self._marks.number).st_ino
        except OSError:
            return True

    def identity(self) -> str:
        """The unique name of the log. The first call creates it."""
        if not self.refresh().identity:
            with self.exclusive() as index:
                if not index.identity:
                    self._give_identity(index)
        return self._index.identity

    def _give_identity(self, index: LogIndex) -> None:
        index.identity = uuid.uuid4().hex
        try:
            self._upgrade()
        except SystemProblem:
            index.identity = ""
            raise

    def refresh(self) -> LogIndex:
        """The index after all entries so far. Costs one `stat` where there is no new entry."""
        if not self._follow(self._marks.number, alone=False):
            with locked(self._lock) as held:
                self._follow(held, alone=True)
        return self._index

    @contextmanager
    def exclusive(self) -> Iterator[LogIndex]:
        """Hold the lock of the log, with an up-to-date index. No other process adds entries meanwhile."""
        with locked(self._lock) as held:
            self._follow(held, alone=True)
            self._held = held
            try:
                yield self._index
            finally:
                self._held = None

    def add(self, entry: JournalEntry) -> None:
        """Add an entry, durably; only inside `exclusive`."""
        assert self._held is not None
        if self._version < VERSION:
            self._upgrade()
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
            with explained("sync", self._path):
                sync_data(self._file.number)
        self._good += len(data)
        self._position += 1
        self._index.apply(entry)
        # The entry is in already, so what fails from here on is no failure of `add`; the next one tries again.
        with suppress(OSError, SystemProblem):
            marks.write(self._held, self._position, self._mark_slot)
            self._mark_slot = marks.slot_after(self._mark_slot)
            if self._good > max(self._compact_bytes, 4 * self._snapshot_bytes):
                self._replace(self._index)

    def mark_anew(self) -> None:
        """Write the position into the lock in place of what it has, durably; only inside `exclusive`."""
        assert self._held is not None
        self._write_mark(self._held)

    def close(self) -> None:
        """Close the files. The journal is neither read nor written after that."""
        self._file.close()
        self._marks.close()

    def _make(self, create: bool) -> None:
        if not create:
            raise gone(self._path) if self._has_streams() else absent(self.directory)
        with explained("make", self.directory):
            make_folder(self.directory / "streams")
        with locked(self._lock) as lock:
            # Another process has made it while this one waited for the lock.
            if exists(self._path):
                return
            with explained("read", self._lock):
                marked = self._marked(lock) or 0
            # No new log, but one that has lost its journal: another one would hide that, and count from 0 again.
            if self._has_streams() or marked > 1:
                raise gone(self._path)
            self._position = 1
            self._write_mark(lock)
            self._replace(LogIndex())

    def _has_streams(self) -> bool:
        streams = self.directory / "streams"
        with explained("read", streams):
            return exists(streams) and any(streams.iterdir())

    def _write_mark(self, lock: int) -> None:
        """A journal of this version is never without a mark, not even after a power cut."""
        with explained("write to", self._lock):
            marks.write_anew(lock, self._position)
            sync_data(lock)

    def _upgrade(self) -> None:
        """Replace the journal by one of this version with the same content."""
        self.mark_anew()
        self._replace(self._index)

    def _open(self) -> None:
        file = Descriptor(self._path, os.O_RDWR)
        with explained("read", self._path):
            self._identity = os.fstat(file.number).st_ino
        self._file = file
        self._good = self._position = self._version = self._snapshot_bytes = 0
        self._index = LogIndex()

    def _survey(self) -> None:
        """Raise SystemProblem unless the journal has every entry that a segment has a mark of."""
        try:
            least, witness = marks.newest(self.directory)
        except SystemProblem:
            # A mark may be written while it is read, but not while the lock is held.
            with locked(self._lock):
                least, witness = marks.newest(self.directory)
        if least > self._least:
            self._least, self._witness = least, witness
        self.refresh()

    def _follow(self, lock: int, *, alone: bool) -> bool:
        """Apply new entries. False where the result is clear only to a reader that holds the lock (`alone`)."""
        with explained("read", self._path):
            # Marks are read before the journal: each entry that has a mark by now must be in it.
            marked = self._marked(lock)
            try:
                status = os.stat(self._path)
            except FileNotFoundError as error:
                raise gone(self._path) from error
            # The old file is still open here, so its number cannot have been given to the new one.
            if status.st_ino != self._identity:
                self._note_least(self._position)
                self._open()
                status = os.fstat(self._file.number)
            # Compare with the bytes that were applied, not with the last size: new bytes may replace a torn tail.
            if status.st_size == self._good and marked is not None and self._least <= marked <= self._position:
                return True
            data = read_all(self._file.number, max(0, status.st_size - self._good), self._good)
        try:
            self._apply_all(data)
        except frames.DamagedFrame as damage:
            if not alone:
                return False
            if not damage.last:
                raise damaged(self._path, self._good) from damage
        self._note_least(marked or 0)
        missing = self._missing(status.st_size, marked)
        if missing and alone:
            raise lost(*missing, self.directory)
        return missing is None

    def _marked(self, lock: int) -> int | None:
        """The position in the mark of the lock file; None where it has no readable mark."""
        data = marks.start_of(lock)
        if data != self._marks_read:
            self._marks_read, self._mark_slot = data, marks.slot_of(data)
            try:
                self._marks_position = marks.decoded(data) if len(data) == marks.MARK_BYTES else None
            except frames.DamagedFrame:
                self._marks_position = None
        return self._marks_position

    def _note_least(self, position: int) -> None:
        if position > self._least and self._version >= _MARKED:
            self._least, self._witness = position, self._lock

    def _missing(self, size: int, marked: int | None) -> tuple[str, str] | None:
        """What is wrong and what was expected if committed entries are lost; None if there are none."""
        if not self._version:
            return f"the journal {self._path} has no whole first entry: it was cut or damaged", "a snapshot"
        if self._lenient or self._version < _MARKED:
            return None
        if size < self._good:
            wrong = f"the journal {self._path} was cut to {size} bytes"
            return wrong, f"the {self._good} bytes that were read before"
        if marked is None:
            expected = f"the number of the last entry of {self._path}, which seems to be {self._position}"
            return f"the file {self._lock} was removed, cut or damaged", expected
        if self._position < self._least:
            wrong = f"the journal {self._path} ends with entry {self._position}, at byte {self._good}: it was cut, "
            wrong += "damaged in its last entries, or replaced by an older one"
            return wrong, f"entry {self._least}, which was committed: {self._witness} has a mark of it"
        return None

    def _apply_all(self, data: bytes) -> None:
        at = 0
        while (frame := frames.take(data, at)) is not None:
            entry = self._decoded(frame.payload)
            if isinstance(entry, Snapshot):
                self._snapshot_bytes, self._version = frame.stop, entry.version
                self._position = entry.position
            elif not self._version:
                raise frames.DamagedFrame(0, last=True)
            else:
                self._position += 1
            self._index.apply(entry)
            self._good += frame.stop - at
            at = frame.stop

    def _replace(self, index: LogIndex) -> None:
        """Replace the journal by one with a snapshot alone. After a crash either the old or the new one is in place."""
        data = frames.make(1, [_encode(index.snapshot(VERSION, self._position))])
        new = self._path.with_name("journal.new")
        # All files are open before anything changes: there may be no descriptors left.
        folder = Descriptor(self.directory, os.O_RDONLY)
        file = Descriptor(new, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        try:
            with explained("write", new):
                write_all(file.number, data, 0)
                sync_data(file.number)
                identity = os.fstat(file.number).st_ino
                os.replace(new, self._path)
        except SystemProblem:
            with suppress(OSError):
                new.unlink()
            raise
        self._file, self._identity = file, identity
        self._good = self._snapshot_bytes = len(data)
        self._version = VERSION
        with explained("sync", self.directory):
            os.fsync(folder.number)

    def _decoded(self, payload: memoryview) -> JournalEntry:
        try:
            entry = _decoder.decode(payload)
        except msgspec.DecodeError as error:
            raise unknown_format(self.directory, "unknown", VERSION) from error
        if isinstance(entry, Snapshot) and not 1 <= entry.version <= VERSION:
            raise unknown_format(self.directory, str(entry.version), VERSION)
        return entry
