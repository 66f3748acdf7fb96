"""Standard output and error that may be full, closed or unread: a failed write there does not end the run."""

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

# By number, since `sys.stderr` may be closed, or replaced, when this process has its last words.
STDERR = 2

# Some ten thousand lines, enough for a reader that is slow for a while; one that never reads must not fill the memory.
MOST_BYTES = 1 << 20
"""The most bytes that wait for a reader of standard error; further lines are left out."""
CLOSE_SECONDS = 1.0
"""How long the end of a run waits until they are written."""


@contextmanager
def forgiving_stderr() -> Iterator[None]:
    """While the context is open, drop text that standard error refuses, on a full disk say, instead of raising OSError.

    It replaces `sys.stderr`, unless that was replaced already. If that is closed, all text is dropped.
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
    """While the context is open, let a thread write to standard error, so that no other thread waits for its reader.

    Up to `MOST_BYTES` wait. Further lines are left out; their number is written once there is capacity again.
    Several may be open at a time, in several threads, and end in any order.
    """
    before = sys.stderr
    queue = _Queue(before)
    thread = threading.Thread(target=queue.write_queue, name="fluvial-stderr", daemon=True)
    thread.start()
    sys.stderr = queued = _text(queue, before)
    try:
        yield
    finally:
        queued.flush()
        queue.end()
        if sys.stderr is queued:  # else another is open, which goes on to write by way of this one
            sys.stderr = _open_one(before)
        thread.join(CLOSE_SECONDS)


def _open_one(stream: TextIO) -> TextIO:
    """The stream, or that behind it if it is a queue that has ended."""
    while isinstance(queue := getattr(getattr(stream, "buffer", None), "raw", None), _Queue) and queue.ended:
        stream = queue.stream
    return stream


def is_read(stream: IO[Any], seconds: float = 0.0) -> bool:
    """Whether a line can be written to a stream without waiting, now or within so many seconds. To a full pipe it
    cannot."""
    try:
        return bool(select.select([], [stream.fileno()], [], seconds)[1])
    except (OSError, ValueError):  # no descriptor: it is in memory
        return True


def say_last(line: str) -> None:
    """Write a line to standard error if that needs no waiting. It works in any state of this process."""
    with suppress(OSError):
        if select.select([], [STDERR], [], 0)[1]:
            os.write(STDERR, f"{line}\n".encode())


def flush_stdout() -> OSError | None:
    """Flush standard output; returns the error if that fails. The buffered text is dropped then, since the interpreter
    would try to write it again at its end."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with suppress(OSError), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return error
    return None


def _text(raw: io.RawIOBase, like: TextIO | None) -> TextIO:
    """A text stream that is flushed after each line."""
    encoding = "utf-8" if like is None else like.encoding
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding=encoding, errors="backslashreplace", line_buffering=True)


def _nowhere() -> int:
    """A descriptor of the null device. It also takes the standard descriptors that are closed, so that no other file
    gets one of these numbers and what is written there."""
    while (number := os.open(os.devnull, os.O_RDWR)) < STDERR:
        pass
    return number


class _Forgiving(io.RawIOBase):
    """A stream over a descriptor whose writes never raise."""

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
    """A queue of lines that a thread writes to a stream. Once it has `ended`, what comes is written at once."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._changed = threading.Condition()
        self._lines = deque[bytes]()
        self._bytes = 0
        self._left_out = 0
        self.ended = False

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self.stream.fileno()

    def isatty(self) -> bool:
        return self.stream.isatty()

    def write(self, data: "ReadableBuffer", /) -> int:
        lines = bytes(data)
        with self._changed:
            if not self.ended:
                self._queue(lines)
                return len(lines)
        self._write_on(lines)
        return len(lines)

    def _queue(self, lines: bytes) -> None:
        if self._bytes + len(lines) > MOST_BYTES:
            self._left_out += lines.count(b"\n")
            return
        self._queue_left_out()
        self._lines.append(lines)
        self._bytes += len(lines)
        self._changed.notify()

    def _write_on(self, lines: bytes) -> None:
        with suppress(OSError, ValueError):
            self.stream.write(lines.decode(errors="replace"))
            self.stream.flush()

    def end(self) -> None:
        """Let the thread end once it has written the queue."""
        with self._changed:
            self._queue_left_out()
            self.ended = True
            self._changed.notify()

    def _queue_left_out(self) -> None:
        if self._left_out:
            note = f"({self._left_out:,} lines are left out here: nobody read them)\n".encode()
            self._lines.append(note)
            self._bytes += len(note)
            self._left_out = 0

    def write_queue(self) -> None:
        """Write the lines of the queue to the stream, until `end`."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines or self.ended)
                if not self._lines:
                    return
                lines = self._lines.popleft()
            self._write_on(lines)
            with self._changed:
                # Only once they are written: what the reader has not taken still is in memory.
                self._bytes -= len(lines)
