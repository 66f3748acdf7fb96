"""What a line of a file is: plain text, JSON, a row of CSV, a request of an access log."""

import csv
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from ...dsl.checks import explain
from ...dsl.errors import UsageError
from .access_log import parse_access_log
from .lines import Lines

FormatName = Literal["lines", "json", "csv", "access-log"]


@dataclass(frozen=True, slots=True)
class Malformed:
    """A line that is not what its format says."""

    line: int
    why: str


Entry = tuple[bytes, Any]
"""A value as bytes, and what fields are looked up in: a dict or a Struct, None where there are none."""

Parsed = Entry | Malformed | None
"""What a line gives; None for nothing."""

FileFormat = Callable[[Lines, str], Iterator[Parsed]]
"""Turns lines, with the delimiter of columns, into entries."""


def _text(lines: Lines, _: str) -> Iterator[Parsed]:
    return ((line, None) for line in lines)


def _json(lines: Lines, _: str) -> Iterator[Parsed]:
    decode = msgspec.json.Decoder().decode
    for line in lines:
        if not line.strip():
            yield None
            continue
        try:
            document = decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            yield Malformed(lines.number, f"no JSON: {error}")
        else:
            yield line, document


def _csv(lines: Lines, delimiter: str) -> Iterator[Parsed]:
    encode = msgspec.json.Encoder().encode
    names: list[str] | None = None
    for number, row in _rows(lines, delimiter):
        if isinstance(row, Malformed):
            yield row
        elif not row:
            yield None
        elif names is None:
            names = _header(row, lines.name)
            yield None
        elif len(row) != len(names):
            yield Malformed(number, f"{len(row)} columns, the header has {len(names)}")
        else:
            fields = dict(zip(names, row, strict=True))
            try:
                yield encode(fields), fields
            except UnicodeEncodeError:
                yield Malformed(number, "not UTF-8")


def _rows(lines: Lines, delimiter: str) -> Iterator[tuple[int, list[str] | Malformed]]:
    """Rows with the number of their last line. What is not UTF-8 becomes lone surrogates, for JSON to refuse."""
    # A quoted field may span lines, so the reader must see their ends.
    reader = csv.reader(
        (line.decode("utf-8", "surrogateescape") + "\n" for line in lines), delimiter=delimiter, strict=True
    )
    while True:
        try:
            row = next(reader, None)
        except csv.Error as error:
            yield lines.number, Malformed(lines.number, f"no row of CSV: {error}")
        else:
            if row is None:
                return
            yield lines.number, row


def _header(row: list[str], name: str) -> list[str]:
    names = [row[0].removeprefix("\ufeff"), *row[1:]]
    twice = sorted({column for column in names if names.count(column) > 1})
    if twice or "" in names:
        wrong = (
            f"the header names {', '.join(map(repr, twice))} twice"
            if twice
            else "the header has a column without a name"
        )
        raise UsageError(explain(wrong, "a first line with a name for each column", "correct the header", f"{name}:1"))
    return names


def _access_log(lines: Lines, _: str) -> Iterator[Parsed]:
    encode = msgspec.json.Encoder().encode
    for line in lines:
        if not line.strip():
            yield None
            continue
        try:
            request = parse_access_log(line.decode())
        except ValueError as error:
            yield Malformed(lines.number, str(error))
        else:
            yield encode(request), request


FORMATS: Mapping[FormatName, FileFormat] = {"lines": _text, "json": _json, "csv": _csv, "access-log": _access_log}
