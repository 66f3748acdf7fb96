"""Reads lines of a file or of standard input, gzipped or not, in constant memory; and opens files for writing."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import BinaryIO, Protocol, cast

from ...dsl.errors import SystemProblem, UsageError
from ...dsl.validation import explain
from ..process.data_files import open_named
from ..process.resource_limits import remedy_for

STANDARD = "-"
"""The name that stands for standard input or output."""

MAX_LINE = 64_000_000
"""The default limit of a line, in bytes."""

# Thousands of usual lines for one system call, and little beside the longest line, which must fit into memory anyway.
_CHUNK = 1 << 18
_MARK = b"\xef\xbb\xbf"
"""The byte order mark that some programs write before UTF-8. It is not part of the first line."""
_GZIP = b"\x1f\x8b"


class _Chunked(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class LineReader:
    """Iterates over lines without their ends, `\\n` or `\\r\\n`; a last line need not have one.

    `number` counts the lines so far. `drained` is True if the next line must be read from disk or waited for: a good
    moment to emit a batch. Raises UsageError for a damaged file, and for a line of more than `max_line` bytes; no more
    than these are held in memory.
    """

    def __init__(self, name: str, file: _Chunked, max_line: int = MAX_LINE) -> None:
        self.name = "standard input" if name == STANDARD else name
        self.number = 0
        self.drained = False
        self.max_line = max_line
        self._file = file

    def __iter__(self) -> Iterator[bytes]:
        begun: list[bytes] = []
        size = 0
        while chunk := self._read():
            first, end, rest = chunk.partition(b"\n")
            begun.append(first)
            size += len(first)
            if size > self.max_line:
                raise self.too_long("the line", self.number + 1)
            if end:
                *lines, tail = rest.split(b"\n")
                yield from self._give([b"".join(begun), *lines])
                begun, size = [tail], len(tail)
        if last := b"".join(begun):
            yield from self._give([last])

    def too_long(self, what: str, line: int) -> UsageError:
        """The error for a line, or a row of CSV, that is too long."""
        wrong, remedy = f"{what} has more than {self.max_line:,} bytes", "raise --max-line, such as --max-line 1GB"
        return UsageError(explain(wrong, "lines that fit into memory", remedy, f"{self.name}:{line}"))

    def _read(self) -> bytes:
        try:
            # Not `read`, which waits for a whole chunk: lines from a pipe or a terminal are passed on at once.
            return self._file.read1(_CHUNK)
        except (OSError, EOFError, zlib.error) as error:
            raise unreadable(self.name, error) from error

    def _give(self, lines: list[bytes]) -> Iterator[bytes]:
        count = len(lines)
        for index, read in enumerate(lines, 1):
            self.number += 1
            self.drained = index == count
            line = read.removeprefix(_MARK) if self.number == 1 else read
            if len(line) > self.max_line:
                raise self.too_long("the line", self.number)
            yield line[:-1] if line.endswith(b"\r") else line


@contextmanager
def open_lines(path: str, max_line: int = MAX_LINE) -> Iterator[LineReader]:
    """The lines of a file, `-` for standard input; gzip is known by its first bytes. UsageError if it can't be read."""
    with ExitStack() as opened:
        try:
            if path == STANDARD:
                file = cast(io.BufferedReader, sys.stdin.buffer)
            else:
                file = opened.enter_context(open(path, "rb"))
            packed = file.peek(len(_GZIP))[: len(_GZIP)] == _GZIP
        except OSError as error:
            raise unreadable(path, error) from error
        yield LineReader(path, cast(_Chunked, gzip.GzipFile(fileobj=file)) if packed else file, max_line)


def unreadable(path: str, error: Exception) -> UsageError:
    """The error for a file that cannot be read."""
    if isinstance(error, FileNotFoundError):
        expected, remedy = "a file, or - for standard input", "correct the path; it is relative to the current folder"
        return UsageError(explain(f"there is no file {path!r}", expected, remedy, path))
    why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return UsageError(explain(f"the file cannot be read: {why}", "a readable file, plain or gzipped", at=path))


class OutputProblem(SystemProblem):
    """An output of a command cannot be written."""


def cannot_write(path: str, error: OSError) -> OutputProblem:
    """The error for a file that cannot be written, `-` for standard output."""
    name = "standard output" if path == STANDARD else path
    expected, remedy = "room for all that is written", remedy_for(error) or "check the disk, or name another file"
    return OutputProblem(explain(f"{name} cannot be written to: {error.strerror or error}", expected, remedy, name))


@contextmanager
def open_output(path: str) -> Iterator[BinaryIO]:
    """A file to write to, `-` for standard output, gzipped if it is named .gz.

    Raises UsageError if it can't be made, OutputProblem if it can't be written to.
    """
    try:
        with _opened(path) as file:
            yield file
            file.flush()
    except BrokenPipeError:  # the reader has closed the pipe, as `head` does
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


@contextmanager
def _opened(path: str) -> Iterator[BinaryIO]:
    with ExitStack() as opened:
        if path == STANDARD:
            yield sys.stdout.buffer
            return
        try:
            file = opened.enter_context(open_named(path))
        except OSError as error:
            if remedy_for(error) is not None:
                raise
            wrong = f"the file cannot be written: {error.strerror}"
            raise UsageError(explain(wrong, "a path in a folder that exists", "make the folder first", path)) from error
        if path.endswith(".gz"):
            # Without a name and a time in the header equal content gives equal files.
            file = cast(BinaryIO, opened.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)))
        yield file
