"""Records as Kafka's messages, and back."""

import re
from collections.abc import Iterable, Sequence
from typing import cast

from confluent_kafka import Message

from ....dsl.message import Headers, Record

Pairs = list[tuple[str, str | bytes | None]]
"""Headers as the client takes them."""

TIME_HEADER = "fluvial.time"
"""The last header of a message whose time cannot be written: 0, which the client takes for "now", and what lies further
ahead than the topic takes. The value is the time in decimal digits. Readers take the header off again. A message of a
user's that ends with a header of this name gets another one, so that it, too, comes back as it was. A header of this
name with any other value was written by somebody else: it is a header like all others."""

_TIME = re.compile(rb"0|-?[1-9][0-9]{0,18}")
_LEAST, _MOST = -(2**63), 2**63 - 1


def records_of(messages: Sequence[Message]) -> list[Record]:
    """Messages as records; the hot path of every run."""
    return [
        (message.key(), message.value(), message.timestamp()[1], ()) if message.headers() is None else _whole(message)
        for message in messages
    ]


def _whole(message: Message) -> Record:
    headers = cast("list[tuple[str, bytes | None]]", message.headers())
    return record_of(message.key(), message.value(), message.timestamp()[1], headers)


def record_of(
    key: bytes | None, value: bytes | None, timestamp: int, headers: Iterable[tuple[str, bytes | None]]
) -> Record:
    """A message with headers as a record."""
    found = [(name, content or b"") for name, content in headers]
    if found and found[-1][0] == TIME_HEADER:
        told = _time_in(found[-1][1])
        if told is not None:
            timestamp = told
            found.pop()
    return key, value, timestamp, tuple(found)


def _time_in(content: bytes) -> int | None:
    """The time that a header tells, in ms since epoch; None for a value that no writer of Fluvial has written."""
    time = int(content) if _TIME.fullmatch(content) else None
    return time if time is not None and _LEAST <= time <= _MOST else None


def stamped(timestamp: int, headers: Headers, latest: int | None) -> tuple[int, Pairs | None]:
    """The time and the headers to write with a message, where its topic takes no time after `latest`."""
    if latest is None or timestamp <= latest:
        return timestamp, headers_for(timestamp, headers)
    return latest, [*headers, (TIME_HEADER, b"%d" % timestamp)]


def headers_for(timestamp: int, headers: Headers) -> Pairs | None:
    """The headers to write with a message; None for none."""
    if timestamp == 0 or (headers and headers[-1][0] == TIME_HEADER):
        return [*headers, (TIME_HEADER, b"%d" % timestamp)]
    return list(headers) or None
