"""Files that survive a crash: descriptors that close themselves, locks, syncs, and errors that name the file."""

import errno
import fcntl
import os
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ...process.data_files import open_file
from ...process.resource_limits import remedy_for


class Descriptor:
    """An open file; it is closed when nothing refers to it any more, or by `close`."""

    def __init__(self, path: Path, flags: int) -> None:
        with explained("open", path):
            self.number = open_file(path, flags)
        self.close = weakref.finalize(self, os.close, self.number)


class OpenFiles:
    """Descriptors by path; beyond `limit` of them the one unused for longest is closed, to be opened again at need."""

    def __init__(self, flags: int, limit: int = 100) -> None:
        self._flags = flags
        self._limit = limit
        self._open: OrderedDict[Path, Descriptor] = OrderedDict()

    def number(self, path: Path) -> int:
        """The descriptor's number, good until the next call."""
        descriptor = self._open.get(path)
        if descriptor is None:
            descriptor = self._open[path] = Descriptor(path, self._flags)
            if len(self._open) > self._limit:
                self._open.popitem(last=False)[1].close()
        else:
            self._open.move_to_end(path)
        return descriptor.number

    def close_removed(self) -> None:
        """Close the files that have been removed, for the disk to have their space back."""
        for path in [path for path in self._open if not exists(path)]:
            self._open.pop(path).close()

    def close(self) -> None:
        """Close all descriptors; `number` opens a file again."""
        while self._open:
            self._open.popitem()[1].close()


_REMOVED = (
    "all files and folders of the log, some of which were removed",
    "restore the whole log from a copy, or choose another folder",
)
_EXPECTED_RESOURCES = "disk space and file descriptors for the files of the log"
_OTHERWISE = "a local disk that this user may write to", "check the disk and the permissions"


def _expected_and_remedy(error: OSError) -> tuple[str, str]:
    if error.errno == errno.ENOENT:
        return _REMOVED
    remedy = remedy_for(error)
    return _OTHERWISE if remedy is None else (_EXPECTED_RESOURCES, remedy)


@contextmanager
def explained(verb: str, path: Path) -> Iterator[None]:
    """Turn an OSError into a SystemProblem that names the file, what was tried and why it failed."""
    try:
        yield
    except OSError as error:
        expected, remedy = _expected_and_remedy(error)
        wrong = f"could not {verb} {path}: {error.strerror or error}"
        raise SystemProblem(explain(wrong, expected, f"{remedy}, then start again", at=path)) from error


def exists(path: Path) -> bool:
    """Whether there is a file or folder; raises SystemProblem where that is not known."""
    with explained("read", path):
        return path.exists()


@contextmanager
def locked(path: Path) -> Iterator[int]:
    """Hold the one lock of a log, against other processes and other threads of this one; yields its descriptor."""
    with explained("lock", path):
        # A description of its own for each holder: one inherited over fork would share the lock with the parent.
        number = open_file(path, os.O_RDWR | os.O_CREAT)
    try:
        with explained("lock", path):
            fcntl.flock(number, fcntl.LOCK_EX)
        yield number
    finally:
        os.close(number)


def write_all(number: int, data: bytes, at: int) -> None:
    """Write all of `data` from a byte on: one call of the system may write less."""
    left = memoryview(data)
    while left:
        written = os.pwrite(number, left, at)
        left, at = left[written:], at + written


def read_all(number: int, size: int, at: int) -> bytes:
    """Read `size` bytes from a byte on, fewer only where the file ends."""
    data = os.pread(number, size, at)
    while len(data) < size and (more := os.pread(number, size - len(data), at + len(data))):
        data += more
    return data


def sync_data(number: int) -> None:
    """Make the bytes and the length of an open file durable."""
    # macOS has no fdatasync.
    getattr(os, "fdatasync", os.fsync)(number)


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    directory = Descriptor(path, os.O_RDONLY)
    try:
        with explained("sync", path):
            os.fsync(directory.number)
    finally:
        directory.close()
