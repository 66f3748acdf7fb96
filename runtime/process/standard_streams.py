"""Standard error and output, which may be full, closed, or read by nobody: what is only said there ends no run."""

import io
import os
import select
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

STDERR = 2

MOST_BYTES = 1 << 20
"""Bytes that wait for a reader of standard error; what is said beyond them is left out."""
CLOSE_SECONDS = 1.0
"""How long the last of them are waited for."""


@contextmanager
def forgiving_stderr() -> Iterator[None]:
    """Drop meanwhile what standard error does not take, on a full disk for one, instead of raising OSError.

    It replaces `sys.stderr` unless somebody else has done so. Where that is closed, everything is dropped.
    """
    before = sys.stderr
    if before is not sys.__stderr__:
        yield
        return
    sys.stderr = _text(_Forgiving(STDERR if before is not None else _nowhere()), before)
    try:
        yield
    finally:
        sys.stderr = before


@contextmanager
def queued_stderr() -> Iterator[None]:
    """Let a thread write to standard error meanwhile: whoever says something never waits for those who read it.

    Up to `MOST_BYTES` wait. More are left out, and how many lines that were is said once there is room again.
    """
    before = sys.stderr
    queue = _Queue(before)
    thread = threading.Thread(target=queue.hand_on, name="fluvial-stderr", daemon=True)
    thread.start()
    sys.stderr = queued = _text(queue, before)
    try:
        yield
    finally:
        queued.flush()
        sys.stderr = before
        queue.end()
        thread.join(CLOSE_SECONDS)


def is_read(stream: IO[Any]) -> bool:
    """Whether a line can be written to a stream at once. A pipe that is full cannot take one."""
    try:
        return bool(select.select([], [stream.fileno()], [], 0)[1])
    except (OSError, ValueError):  # no descriptor: it is in memory
        return True


def say_last(line: str) -> None:
    """Write a line on standard error, if that takes it at once, whatever state this process is in."""
    with suppress(OSError):
        if select.select([], [STDERR], [], 0)[1]:
            os.write(STDERR, f"{line}\n".encode())


def flush_stdout() -> OSError | None:
    """Write what waits for standard output; the error where that fails. All of it is dropped then, for the interpreter
    would try again at its end."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return error
    return None


def _text(raw: io.RawIOBase, like: TextIO | None) -> TextIO:
    """A text file that hands each line on at once."""
    encoding = "utf-8" if like is None else like.encoding
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=True)


def _nowhere() -> int:
    """A descriptor for what nobody is to see. The standard ones that are closed are taken, so that no other file gets
    what others write there."""
    while (number := os.open(os.devnull, os.O_RDWR)) < STDERR:
        pass
    return number


class _Forgiving(io.RawIOBase):
    """A descriptor whose writes never fail."""

    def __init__(self, number: int) -> None:
        self._number = number

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._number

    def isatty(self) -> bool:
        return os.isatty(self._number)

    def write(self, data: "ReadableBuffer", /) -> int:
        rest = whole = memoryview(data)
        with suppress(OSError):
            while rest:
                rest = rest[os.write(self._number, rest) :]
        return len(whole)


class _Queue(io.RawIOBase):
    """Lines that wait until a stream takes them."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._changed = threading.Condition()
        self._lines = deque[bytes]()
        self._bytes = 0
        self._left_out = 0
        self._over = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def write(self, data: "ReadableBuffer", /) -> int:
        lines = bytes(data)
        with self._changed:
            if self._bytes + len(lines) > MOST_BYTES:
                self._left_out += lines.count(b"\n")
                return len(lines)
            self._tell_left_out()
            self._lines.append(lines)
            self._bytes += len(lines)
            self._changed.notify()
        return len(lines)

    def end(self) -> None:
        """Let the thread go once it has handed on what there is."""
        with self._changed:
            self._tell_left_out()
            self._over = True
            self._changed.notify()

    def _tell_left_out(self) -> None:
        if self._left_out:
            note = f"({self._left_out:,} lines are left out here: nobody read them)\n".encode()
            self._lines.append(note)
            self._bytes += len(note)
            self._left_out = 0

    def hand_on(self) -> None:
        """Give the stream what is said, as it takes it."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self._over)
                if not self._lines:
                    return
                lines = self._lines.popleft()
            with suppress(OSError, ValueError):
                self._stream.write(lines.decode(errors="replace"))
                self._stream.flush()
            with self._changed:
                self._bytes -= len(lines)
