"""The formats of a file, line by line: plain text, JSON, CSV, access log."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ...dsl.errors import UsageError
from ...dsl.validation import explain
from .access_log import parse_access_log
from .lines import LineReader

FormatName = Literal["lines", "json", "csv", "access-log"]


@dataclass(frozen=True, slots=True)
class MalformedLine:
    """A line that does not fit the format, and why."""

    line: int
    why: str


ParsedValue = tuple[bytes, Any]
"""A value as bytes, and its fields: a dict or a Struct; None for a format without fields."""

Parsed = ParsedValue | MalformedLine | None
"""The result of a line; None for a line without a value, such as a blank one."""


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """How to read CSV: the delimiter, and the names of the columns if the file has no header."""

    delimiter: str = ","
    names: tuple[str, ...] | None = None


FileFormat = Callable[[LineReader, CsvOptions], Iterator[Parsed]]
"""Parses the lines of a file."""


def _text(lines: LineReader, _: CsvOptions) -> Iterator[Parsed]:
    return ((line, None) for line in lines)


def _json(lines: LineReader, _: CsvOptions) -> Iterator[Parsed]:
    decode = msgspec.json.Decoder().decode
    for line in lines:
        if not line.strip():
            yield None
            continue
        try:
            document = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield MalformedLine(lines.number, f"no JSON: {error}")
        else:
            yield line, document


def _csv(lines: LineReader, columns: CsvOptions) -> Iterator[Parsed]:
    encode = msgspec.json.Encoder().encode
    names = None if columns.names is None else list(columns.names)
    has = "the header has" if names is None else "--columns names"
    for number, row in _rows(lines, columns.delimiter):
        if isinstance(row, MalformedLine):
            yield row
        elif not row:
            yield None
        elif names is None:
            names = _header(row, lines.name)
            yield None
        elif len(row) != len(names):
            yield MalformedLine(number, f"{len(row)} columns, {has} {len(names)}")
        else:
            fields = dict(zip(names, row, strict=True))
            try:
                yield encode(fields), fields
            except UnicodeEncodeError:
                yield MalformedLine(number, "not UTF-8")


def _rows(lines: LineReader, delimiter: str) -> Iterator[tuple[int, list[str] | MalformedLine]]:
    """Rows with the number of their last line. Bytes that are not UTF-8 become lone surrogates, which JSON refuses."""
    begun = [-1, 0]  # bytes of the row so far, without its last line end, and the line at which it begins

    def texts() -> Iterator[str]:
        for line in lines:
            begun[0] += len(line) + 1  # a quoted field may consist of nothing but ends of lines
            if begun[0] > lines.max_line:
                raise lines.too_long("the row", begun[1])
            # A quoted field may span lines, so the CSV reader needs their ends.
            yield line.decode("utf-8", "surrogateescape") + "\n"

    # `max_line` is the limit of a row; the default limit of the csv module is 131,072 characters a field.
    csv.field_size_limit(max(csv.field_size_limit(), lines.max_line))
    reader = csv.reader(texts(), delimiter=delimiter, strict=True)
    while True:
        begun[:] = -1, lines.number + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            yield lines.number, MalformedLine(lines.number, f"no row of CSV: {error}")
        else:
            if row is None:
                return
            yield lines.number, row


def _header(row: list[str], name: str) -> list[str]:
    if wrong := misnamed(row):
        expected, remedy = "a first line with a name for each column", "correct the header, or name them with --columns"
        raise UsageError(explain(f"the header {wrong}", expected, remedy, f"{name}:1"))
    return row


def misnamed(names: Sequence[str]) -> str:
    """What is wrong with the names of columns; empty if nothing is."""
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice:
        return f"names {', '.join(map(repr, twice))} twice"
    return "has a column without a name" if "" in names else ""


def _access_log(lines: LineReader, _: CsvOptions) -> Iterator[Parsed]:
    encode = msgspec.json.Encoder().encode
    for line in lines:
        if not line.strip():
            yield None
            continue
        try:
            request = parse_access_log(line.decode())
        except ValueError as error:
            yield MalformedLine(lines.number, str(error))
        else:
            yield encode(request), request


FORMATS: Mapping[FormatName, FileFormat] = {"lines": _text, "json": _json, "csv": _csv, "access-log": _access_log}
