"""Converts records to messages of Kafka, and back."""

import re
from collections.abc import Iterable, Sequence
from typing import cast

from confluent_kafka import Message

from ....dsl.message import Headers, Record

Pairs = list[tuple[str, str | bytes | None]]
"""Headers in the form that the Kafka client takes."""

TIME_HEADER = "fluvial.time"
"""The last header of a message whose timestamp cannot be written: 0, which the client takes for "now", or one that is
further ahead than the topic accepts. The value is the timestamp in decimal digits. Readers remove the header. If the
last header of a user's message has this name, the message gets one more, so that it is read as it was written. A header
of this name with any other value comes from another program, and is left as it is."""

_TIME = re.compile(rb"0|-?[1-9][0-9]{0,18}")
# Times of messages have 64 bits; a header with a longer number is another program's.
_LEAST, _MOST = -(2**63), 2**63 - 1


def records_of(messages: Sequence[Message]) -> list[Record]:
    """Convert messages of the Kafka client to records. Every message that is read comes through here, so the usual one,
    without headers, costs no call of another function of ours."""
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
    """Convert a message that has headers. Its timestamp may be in the last of them, as `TIME_HEADER` says."""
    pairs = [(name, content or b"") for name, content in headers]
    if pairs and pairs[-1][0] == TIME_HEADER:
        time = _time_in(pairs[-1][1])
        if time is not None:
            timestamp = time
            pairs.pop()
    return key, value, timestamp, tuple(pairs)


def _time_in(content: bytes) -> int | None:
    """The timestamp in a header, in ms since epoch; None for a value that Fluvial does not write."""
    time = int(content) if _TIME.fullmatch(content) else None
    return time if time is not None and _LEAST <= time <= _MOST else None


def stamped(timestamp: int, headers: Headers, latest: int | None) -> tuple[int, Pairs | None]:
    """The timestamp and headers to write with a message, where its topic accepts no timestamp after `latest`."""
    if latest is None or timestamp <= latest:
        return timestamp, headers_for(timestamp, headers)
    return latest, [*headers, (TIME_HEADER, b"%d" % timestamp)]


def headers_for(timestamp: int, headers: Headers) -> Pairs | None:
    """The headers to write with a message; None for none."""
    if timestamp == 0 or (headers and headers[-1][0] == TIME_HEADER):
        return [*headers, (TIME_HEADER, b"%d" % timestamp)]
    return list(headers) or None
