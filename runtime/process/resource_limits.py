"""Errors of a machine that has run out of something, such as disk or open files, and the remedies."""

import errno
import os
import re
import selectors
import shutil
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from ...dsl.errors import SystemProblem
from ...dsl.validation import explain

_FREE_DISK = "free space on the disk that is full, or raise the quota"
_MORE_FILES = "raise the limit of open files (ulimit -n), or spread the tasks over more containers"
_REMEDIES: Mapping[int, str] = {
    errno.ENOSPC: _FREE_DISK,
    errno.EDQUOT: _FREE_DISK,
    errno.EFBIG: "raise the limit of the size of files (ulimit -f), or use a file system that takes larger ones",
    errno.EMFILE: _MORE_FILES,
    errno.ENFILE: "raise the limit of open files of the machine (sysctl fs.file-max)",
    errno.ENOMEM: "give the process more memory, or lower Settings.cached_entries",
}
"""What to do, by the number of the error."""
_BY_TEXT: Mapping[str, int] = {os.strerror(number).lower(): number for number in _REMEDIES}
# The longest first: one may begin with another.
_TEXTS = re.compile("|".join(map(re.escape, sorted(_BY_TEXT, key=len, reverse=True))))
_FULL = re.compile("|".join(os.strerror(number).lower() for number in (errno.ENOSPC, errno.EDQUOT)))
_IN_RUST = re.compile(r".* \(os error (\d+)\)", re.DOTALL)
"""The text of an operating system's error from a library in Rust: only the text has the number of the error."""


def remedy_for(error: BaseException) -> str | None:
    """What to do about an error that says that the machine has run out of something; None for any other error.

    >>> remedy_for(OSError(errno.EMFILE, "Too many open files"))
    'raise the limit of open files (ulimit -n), or spread the tasks over more containers'
    """
    if isinstance(error, OSError):
        match = None if error.errno is not None else _IN_RUST.fullmatch(str(error))
        return _REMEDIES.get(int(match[1]) if match else error.errno or 0)
    return remedy_in(str(error))


def remedy_in(text: str) -> str | None:
    """What to do about an error of which there is the text alone, as from clients that are not written in Python; None
    if it says nothing of what has run out."""
    match = _TEXTS.search(text.lower())
    return None if match is None else _REMEDIES[_BY_TEXT[match[0]]]


def exhaustion_behind(error: BaseException) -> OSError | None:
    """The error of the operating system that says that the machine has run out of something: this one, or one behind
    it. Clients of services raise errors of their own for it, which are no OSError.

    >>> try:
    ...     try:
    ...         raise OSError(errno.EMFILE, "Too many open files")
    ...     except OSError as error:
    ...         raise RuntimeError("all connection attempts failed") from error
    ... except RuntimeError as error:
    ...     str(exhaustion_behind(error))
    '[Errno 24] Too many open files'
    """
    waiting, met = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, OSError) and remedy_for(one) is not None:
            return one
        met.add(id(one))
        behind = one.__cause__ if one.__suppress_context__ else one.__context__
        parts = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        waiting += [other for other in (behind, *parts) if other is not None and id(other) not in met]
    return None


def require_descriptors_of_loop() -> None:
    """Raise OSError if too few file descriptors are left for a new event loop of asyncio: a loop that fails while it
    opens them prints a traceback when it is deleted."""
    with selectors.DefaultSelector():
        for end in socket.socketpair():
            end.close()


def exhausted(error: BaseException, where: str = "this run") -> SystemProblem:
    """The error of a run for an error of the operating system that has a remedy. `where` names what has failed."""
    wrong = f"the machine has run out of something that {where} needs: {error}"
    expected = "disk space, open files and memory to spare"
    return SystemProblem(explain(wrong, expected, remedy_for(error) or ""))


@contextmanager
def exhaustion_explained() -> Iterator[None]:
    """Raise SystemProblem in place of an OSError that says that the machine has run out of something."""
    try:
        yield
    except OSError as error:
        if remedy_for(error) is None:
            raise
        raise exhausted(error) from error


@contextmanager
def full_disks_explained(folders: Sequence[Path]) -> Iterator[None]:
    """Add to an error that says that a disk is full how much room there is on the disk of each of these folders.
    Processes of others, and Python where it writes to an open file, do not say where they have written to."""
    try:
        yield
    except SystemProblem as error:
        if _FULL.search(str(error).lower()) is None:
            raise
        raise type(error)(f"{error}\n  room now: {'; '.join(_rooms(folders))}") from error


def _rooms(folders: Sequence[Path]) -> Iterator[str]:
    """The room on the disk of each folder, those that are made only later included; a disk is named once."""
    disks: set[int] = set()
    for folder in folders:
        with suppress(OSError):
            there = next(part for part in (folder, *folder.absolute().parents) if part.exists())
            if (disk := there.stat().st_dev) not in disks:
                disks.add(disk)
                usage = shutil.disk_usage(there)
                yield f"{usage.free >> 20:,} of {usage.total >> 20:,} MiB for {folder}"
