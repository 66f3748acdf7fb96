"""Reads files as batches of records with keys and timestamps, in constant memory."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any

from ...dsl.errors import UsageError
from ...dsl.message import Record
from ...dsl.serde import encode_key
from ...dsl.validation import explain
from ..kernel.time.bounds import EARLIEST, LATEST, wrong_time
from .access_log import Request
from .formats import FORMATS, CsvOptions, FormatName, MalformedLine, ParsedValue, misnamed
from .lines import MAX_LINE, LineReader, open_lines

# As many as a reader of a stream takes at once (`MOST_RECORDS`), so a file takes no more memory.
BATCH_RECORDS = 10_000

_MOST_DIGITS = 40
"""Most digits of a timestamp: to parse more takes long."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a file becomes records.

    `key_field` and `timestamp_field` name fields of each value. Without them records have no key, and the time at
    which they are read. A malformed line is an error, unless `skip_malformed`; a line of more than `max_line` bytes is
    always an error. `columns` are the names of CSV columns, if the first line does not have them. The format None means
    "lines", unless the types of the stream suggest another.
    """

    format: FormatName | None = "lines"
    key_field: str | None = None
    timestamp_field: str | None = None
    delimiter: str = ","
    skip_malformed: bool = False
    columns: tuple[str, ...] | None = None
    max_line: int = MAX_LINE

    def __post_init__(self) -> None:
        named = [name for name in (self.key_field, self.timestamp_field) if name is not None]
        if self.format is not None and self.format not in FORMATS:
            raise _refused(f"format {self.format!r}", f"one of {', '.join(FORMATS)}", "name one of them")
        if self.format == "lines" and named:
            expected = f"one of {', '.join(name for name in FORMATS if name != 'lines')}, which have fields"
            raise _refused(f"lines of plain text have no field {named[0]!r}", expected, "name the format of the file")
        for name in named:
            if self.format == "access-log" and name not in Request.__struct_fields__:
                expected = f"one of {', '.join(Request.__struct_fields__)}"
                raise _refused(f"a request of an access log has no field {name!r}", expected, "name one of them")
        if len(self.delimiter) != 1 or self.delimiter in '"\r\n':
            raise _refused(f"delimiter {self.delimiter!r}", "one character, which is no quote", "write --delimiter ';'")
        if self.columns is not None and self.format != "csv":
            remedy = "name the format csv, or leave out --columns"
            raise _refused(f"--columns with the format {self.format or 'lines'}", "csv", remedy)
        if self.columns is not None and (wrong := misnamed(self.columns)):
            raise _refused(f"--columns {wrong}", "a name for each column", "write --columns NAME,NAME,...")
        if self.max_line < 1:
            raise _refused(f"--max-line {self.max_line}", "a number of bytes, 1 or more", "write --max-line 64MB")


@dataclass(frozen=True, slots=True)
class Encoding:
    """How to encode keys and values for a stream of known types.

    `value` encodes the fields of a value; None if the bytes of the line are the value. `key` encodes the field with the
    key. Both raise ValueError or TypeError for what they cannot encode. With `skips_blank` blank lines are skipped."""

    value: Callable[[Any], bytes] | None = None
    key: Callable[[Any], bytes | None] = encode_key
    skips_blank: bool = False


def _refused(wrong: str, expected: str, remedy: str) -> UsageError:
    return UsageError(explain(wrong, expected, remedy, "the options for reading files"))


class NoSuchField(ValueError):
    """A value lacks the field that an option names."""

    def __init__(self, name: str, fields: Sequence[str]) -> None:
        super().__init__(f"no field {name!r} among {', '.join(fields) or 'none'}")
        self.name, self.fields = name, fields

    def remedy(self, reading: ReadOptions) -> str:
        """What to do where no line before had the field either."""
        option = "--key-field" if self.name == reading.key_field else "--timestamp-field"
        meant = get_close_matches(self.name, self.fields, 1, cutoff=0.5)
        return f"write {option} {meant[0]}" if meant else f"correct {option}: name a field that the lines have"


class RecordFile:
    """The records of one open file. `malformed` counts the skipped lines; `first_malformed` is the first of them."""

    def __init__(
        self, lines: LineReader, reading: ReadOptions, clock: Callable[[], float], encoding: Encoding = Encoding()
    ) -> None:
        self._lines = lines
        self._reading = reading
        self._encoding = encoding
        self._clock = clock
        self._some = False
        self.malformed = 0
        self.first_malformed: MalformedLine | None = None

    def batches(self) -> Iterator[list[Record]]:
        """Batches of at most 10,000 records. A batch ends early if the next line must be waited for."""
        record_of = _recorder(self._reading, self._encoding)
        skips_blank = self._encoding.skips_blank
        columns = CsvOptions(self._reading.delimiter, self._reading.columns)
        batch: list[Record] = []
        now = self._now()
        for parsed in FORMATS[self._reading.format or "lines"](self._lines, columns):
            if isinstance(parsed, MalformedLine):
                self._skip(parsed)
            elif parsed is not None and not (skips_blank and not parsed[0].strip()):
                try:
                    batch.append(record_of(parsed, now))
                except (TypeError, ValueError) as error:
                    self._skip(MalformedLine(self._lines.number, str(error)), error)
                else:
                    self._some = True
            # A pipe that sends nothing for now must not hold back the lines that it has sent.
            if self._lines.drained or len(batch) >= BATCH_RECORDS:
                if batch:
                    yield batch
                batch, now = [], self._now()
        if batch:
            yield batch

    def _now(self) -> int:
        return int(self._clock() * 1000)

    def _skip(self, line: MalformedLine, why: Exception | None = None) -> None:
        if not self._reading.skip_malformed:
            expected = f"the format {self._reading.format or 'lines'}"
            remedy = "correct the line, or skip such lines with --skip-malformed"
            if isinstance(why, NoSuchField) and not self._some:  # to skip all lines would help nobody
                expected, remedy = "lines with that field", why.remedy(self._reading)
            where = f"{self._lines.name}:{line.line}"
            raise UsageError(explain(line.why, expected, remedy, where))
        self.malformed += 1
        self.first_malformed = self.first_malformed or line


@contextmanager
def open_records(
    path: str, reading: ReadOptions, encoding: Encoding = Encoding(), *, clock: Callable[[], float] = time.time
) -> Iterator[RecordFile]:
    """Open a file, `-` for standard input, as records. Raises UsageError if it cannot be read."""
    with open_lines(path, reading.max_line) as lines:
        yield RecordFile(lines, reading, clock, encoding)


def _recorder(reading: ReadOptions, encoding: Encoding) -> Callable[[ParsedValue, int], Record]:
    """The function that makes a record of a parsed value. It raises ValueError or TypeError for an unfit field."""
    key_field, timestamp_field = reading.key_field, reading.timestamp_field
    value_of, key_of = encoding.value, encoding.key

    def plain(entry: ParsedValue, now: int) -> Record:
        return None, entry[0], now, ()

    def with_fields(entry: ParsedValue, now: int) -> Record:
        value, document = entry
        key = None if key_field is None else key_of(_field(document, key_field))
        at = now if timestamp_field is None else _millis(timestamp_field, _field(document, timestamp_field))
        return key, value if value_of is None else value_of(document), at, ()

    return plain if key_field is None and timestamp_field is None and value_of is None else with_fields


def _field(document: Any, name: str) -> Any:
    if isinstance(document, Request):
        return getattr(document, name)
    if not isinstance(document, dict):
        raise ValueError(f"no object with a field {name!r}")
    if name not in document:
        raise NoSuchField(name, tuple(document))
    return document[name]


def _millis(name: str, value: Any) -> int:
    """A timestamp: ms since epoch as a number or digits, or ISO 8601 with a time zone."""
    at = _number(value)
    if at is None:
        try:
            at = (datetime.fromisoformat(str(value)) - _EPOCH) // timedelta(milliseconds=1)
        except (TypeError, ValueError):
            expected = "ms since epoch, or a time such as 2024-05-17T10:05:03Z"
            raise ValueError(f"field {name!r} is {value!r}, expected {expected}") from None
    if not EARLIEST <= at <= LATEST:
        raise ValueError(f"field {name!r}: {wrong_time(at)}")
    return at


def _number(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and value.removeprefix("-").isdecimal() and len(value) <= _MOST_DIGITS:
        return int(value)
    return None
