"""Lines of web servers' access logs: Apache's common and combined formats, and nginx's combined."""

import re
from datetime import UTC, datetime, timedelta, timezone
from functools import lru_cache

from msgspec import Struct


class Request(Struct, frozen=True, gc=False):
    """One request that a web server logged.

    `time` is in ms since epoch, UTC. A field that the server wrote as "-" is None; `status` and `bytes` are then
    0. If the first line is not an HTTP request, `path` is the whole text, and `method` and `protocol` are None.
    """

    host: str
    user: str | None
    time: int
    method: str | None
    path: str | None
    protocol: str | None
    status: int
    bytes: int
    referrer: str | None = None
    agent: str | None = None


# Possessive: for a quote that never closes the pattern fails after one pass, without backtracking.
_QUOTED = r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"'

# Each part, with its name in error messages. The user is not quoted and may hold spaces.
_PARTS = (
    ("the client's address", r"(\S++)"),
    ("the identity, or -", r" \S++"),
    ("the user, or -", r" (.+?) (?=\[)"),
    ("a time such as [17/May/2015:10:05:03 +0000]", r"\[(\d\d/\w{3}/\d{4}:\d\d:\d\d):([0-5]\d|60) ([+-]\d{4})\]"),
    ("the request in quotes", " " + _QUOTED),
    ("a status of three digits", r" (\d{3}|-)"),
    ("the bytes sent, or -", r" (\d++|-)"),
    ("the referrer in quotes, or nothing more", f"(?: {_QUOTED}|(?= *$))"),
    ("the agent in quotes", f"(?(9) {_QUOTED})"),  # if there is a referrer, which is the 9th group
    ("the end of the line", " *$"),
)
_LINE = re.compile("".join(pattern for _, pattern in _PARTS), re.ASCII)
_ESCAPE = re.compile(rb"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"b": b"\b", b'"': b'"', b"\\": b"\\"}
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_access_log(line: str) -> Request:
    """Parse a line of an access log; raises ValueError for any other line.

    >>> request = parse_access_log('::1 - ada [17/May/2015:12:05:03 +0200] "GET /a HTTP/1.1" 200 -')
    >>> request.host, request.user, request.time, request.path, request.status, request.bytes
    ('::1', 'ada', 1431857103000, '/a', 200, 0)
    """
    match = _LINE.match(line)
    if match is None:
        raise ValueError(_why(line))
    host, user, minute, second, zone, first, status, size, referrer, agent = match.groups()
    method, path, protocol = _request(first)
    return Request(
        host,
        None if user == "-" else user,
        _since_epoch(minute, zone) + int(second) * 1000,
        method,
        path,
        protocol,
        0 if status == "-" else int(status),
        0 if size == "-" else int(size),
        _text(referrer),
        _text(agent),
    )


@lru_cache(maxsize=4096)
def _since_epoch(minute: str, zone: str) -> int:
    """The ms since epoch of a minute such as `17/May/2015:10:05`; most lines share theirs with the line before."""
    day, month, year = minute[:2], minute[3:6], minute[7:11]
    if month not in _MONTHS:
        raise ValueError(f"{minute!r} is no time: the month is one of {', '.join(_MONTHS)}")
    ahead = timedelta(hours=int(zone[1:3]), minutes=int(zone[3:]))
    try:
        offset = timezone(-ahead if zone[0] == "-" else ahead)
        when = datetime(
            int(year), _MONTHS.index(month) + 1, int(day), int(minute[12:14]), int(minute[15:]), tzinfo=offset
        )
    except ValueError as error:
        raise ValueError(f"{minute!r} {zone} is no time: {error}") from None
    return (when - _EPOCH) // timedelta(milliseconds=1)


def _request(first: str) -> tuple[str | None, str | None, str | None]:
    """Method, path and protocol of a first line; HTTP/0.9 has no protocol, and some paths hold spaces."""
    text = _text(first)
    if not text:
        return None, None, None
    method, space, rest = text.partition(" ")
    path, between, protocol = rest.rpartition(" ")
    if between and protocol.startswith("HTTP/"):
        return method, path, protocol
    if space and method.isupper() and rest.startswith("/"):
        return method, rest, None
    return None, text, None


def _text(quoted: str | None) -> str | None:
    r"""The text of a quoted field without escapes: `\"`, `\\`, `\n` and the like, and `\xHH` for bytes of UTF-8."""
    if quoted is None or quoted == "-":
        return None
    return (
        quoted if "\\" not in quoted else _ESCAPE.sub(_unescaped, quoted.encode()).decode("utf-8", "backslashreplace")
    )


def _unescaped(match: re.Match[bytes]) -> bytes:
    code, letter = match.groups()
    return bytes.fromhex(code.decode()) if code else _LETTERS.get(letter, match[0])


def _why(line: str) -> str:
    """Why a line cannot be parsed: the column of the first wrong part, and what was expected there."""
    end, pattern = 0, ""
    for expected, part in _PARTS:
        pattern += part
        match = re.match(pattern, line, re.ASCII)
        if match is None:
            rest = line[end : end + 40]
            actual = f"{rest!r}" if rest else "its end"
            return f"no line of an access log: expected {expected} at column {end + 1}, found {actual}"
        end = match.end()
    raise AssertionError("the line can be read")
