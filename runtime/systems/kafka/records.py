"""Records as Kafka's messages, and back."""

from collections.abc import Sequence
from typing import cast

from confluent_kafka import Message

from ....dsl.message import Headers, Record

TIME_HEADER = "fluvial.time"
"""The last header of a message whose time the client cannot write: 0, which it takes for "now". The value is the time
in decimal digits. Readers take the header off again. A message of a user's that ends with a header of this name gets
another one, so that it, too, comes back as it was."""


def records_of(messages: Sequence[Message]) -> list[Record]:
    """Messages as records; the hot path of every run."""
    return [
        (message.key(), message.value(), message.timestamp()[1], ()) if message.headers() is None else _whole(message)
        for message in messages
    ]


def _whole(message: Message) -> Record:
    pairs = cast("list[tuple[str, bytes | None]]", message.headers())
    headers = [(name, value or b"") for name, value in pairs]
    timestamp = message.timestamp()[1]
    if headers and headers[-1][0] == TIME_HEADER:
        timestamp = int(headers.pop()[1])
    return message.key(), message.value(), timestamp, tuple(headers)


def headers_for(timestamp: int, headers: Headers) -> list[tuple[str, str | bytes | None]] | None:
    """The headers to write with a message; None for none."""
    if timestamp == 0 or (headers and headers[-1][0] == TIME_HEADER):
        return [*headers, (TIME_HEADER, b"%d" % timestamp)]
    return list(headers) or None
