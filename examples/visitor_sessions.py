"""Visits to a web site: what each visitor asked for, until half an hour of silence.

Reads lines of an access log (Apache's combined format) and writes one `Session` for each visit:

    fluvial run examples/visitor_sessions.py --input access-log=access.log --output sessions=sessions.jsonl

On Spark, with the same result: add `--engine spark`. A line that is no request goes to the stream
`visitor-sessions-dead-letters`: add `--output visitor-sessions-dead-letters=-` to see such lines. The reason and the
position of each are in its headers, which `fluvial consume` shows.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import NoReturn

from fluvial.dsl import Pane, Pipeline, Serde, aggregate, dead_letter, session
from fluvial.runtime.files.access_log import Request, parse_access_log


@dataclass(frozen=True, slots=True)
class Hit:
    """What a session needs to know of a request; `time` is in ms since epoch, `bytes` counts the body that was sent."""

    visitor: str
    time: int
    page: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Visit:
    """What is kept while a visit lasts. `entry` and `exit` are (time, page): hits of one second are ordered by page, so
    that it does not matter in which order they arrive."""

    pages: int = 0
    bytes: int = 0
    entry: tuple[int, str] = (2**62, "")
    exit: tuple[int, str] = (-1, "")


@dataclass(frozen=True, slots=True)
class Session:
    """A visit that is over; `start` and `end` are its first and last request, in ms since epoch."""

    visitor: str
    start: int
    end: int
    pages: int
    bytes: int
    entry_page: str
    exit_page: str


def parse(line: bytes) -> Request:
    """What a line says; raises ValueError for one that is no request."""
    return parse_access_log(line.decode())


def only_read(_: Request) -> NoReturn:
    """A Serde has two directions; nobody writes an access log here."""
    raise TypeError("access logs are read here, not written")


def to_hit(request: Request) -> Hit:
    """A request without a path, such as a handshake that went wrong, is shown as "-"."""
    return Hit(request.host, request.time, request.path or "-", request.bytes)


def merge(one: Visit, other: Visit) -> Visit:
    """Two parts of one visit together: a late hit may close the gap between them."""
    return Visit(
        one.pages + other.pages, one.bytes + other.bytes, min(one.entry, other.entry), max(one.exit, other.exit)
    )


def add(visit: Visit, hit: Hit) -> Visit:
    """The visit with one more hit."""
    at = (hit.time, hit.page)
    return merge(visit, Visit(1, hit.bytes, at, at))


def to_session(pane: Pane[str, Visit]) -> Session:
    """What a finished window says."""
    visit = pane.value
    (start, entry_page), (end, exit_page) = visit.entry, visit.exit
    return Session(pane.key, start, end, visit.pages, visit.bytes, entry_page, exit_page)


pipeline = Pipeline("visitor-sessions", on_error=dead_letter())
(
    pipeline.stream(
        "access-log",
        value=Serde("access-log", Request, only_read, parse),
        timestamp=lambda request: request.time,
        # Servers log a request when it has been answered, so lines are a little out of order.
        out_of_order=timedelta(seconds=60),
    )
    .map(to_hit)
    .partition_by(lambda hit: hit.visitor, id="by-visitor", key_type=str)
    .window(session(timedelta(minutes=30)), aggregate(Visit, add, merge=merge), id="visits")
    .map(to_session)
    .send_to("sessions", key=lambda visit: visit.visitor)
)
