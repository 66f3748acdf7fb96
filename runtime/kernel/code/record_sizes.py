"""Checks of the size of records where they are made: one that its stream does not take is an error of its message."""

from collections.abc import Callable

from ....dsl.message import Headers
from ...size_limit import HEADER_BYTES, SizeLimit, record_bytes
from .returned_values import ReturnedValueError

CheckSize = Callable[[bytes | None, bytes | None, Headers], None]
"""Raises RecordTooLarge for a key, a value and headers that together are too large."""

# Hardly any key is longer, so that the quick test of a record looks at its value alone, against a limit that is so much
# smaller: little, where streams take a megabyte.
_LARGE_KEY = 64 << 10


class RecordTooLarge(ReturnedValueError):
    """A record is larger than its stream takes."""

    def __init__(self, stream: str, size: int, limit: SizeLimit) -> None:
        super().__init__(f"its record for the stream {stream} has {size:,} bytes, more than the stream takes")
        self.limit = limit


def size_check(stream: str, limit: SizeLimit) -> CheckSize:
    """The check of the records of a stream."""
    largest, fits = limit.largest, limit.fits

    def check_size(key: bytes | None, value: bytes | None, headers: Headers) -> None:
        # Each message with headers comes here: first a bound that is quickly counted, with 4 bytes a character.
        most = (0 if key is None else len(key)) + (0 if value is None else len(value))
        for name, text in headers:
            most += len(name) * 4 + len(text) + HEADER_BYTES
        if most <= largest:
            return
        size = record_bytes(key, value, headers)
        if size > largest and (fits is None or not fits(key, value, headers)):
            raise RecordTooLarge(stream, size, limit)

    return check_size


def may_be_large(limit: SizeLimit, key: str, value: str, headers: str) -> str:
    """The expression that is true of each record that may be too large, and of few others: those with headers. It takes
    30 ns, and to count all bytes five times as much."""
    large_key = min(_LARGE_KEY, limit.largest // 16)
    large_value = limit.largest - large_key
    by_key = f"{key} is not None and len({key}) > {large_key}"
    return f"{value} is not None and len({value}) > {large_value} or {headers} or {by_key}"
