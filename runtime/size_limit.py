"""The largest record that a stream takes, as its system tells it and as the kernel checks it."""

from collections.abc import Callable
from dataclasses import dataclass

from ..dsl.message import Headers

HEADER_BYTES = 16
"""What a header takes besides its name and its value, at most: their lengths, as systems write them."""


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """A limit of the records of a stream: `largest` bytes, as `record_bytes` counts them. `remedy` says how to raise
    it. A record that is larger may still fit: then `fits` says so, given its key, its value and its headers."""

    largest: int
    remedy: str = ""
    fits: Callable[[bytes | None, bytes | None, Headers], bool] | None = None


def record_bytes(key: bytes | None, value: bytes | None, headers: Headers) -> int:
    """How many bytes a record takes.

    >>> record_bytes(b"key", b"value", (("name", b"1"),)) - HEADER_BYTES
    13
    """
    return len(key or b"") + len(value or b"") + headers_bytes(headers)


def headers_bytes(headers: Headers) -> int:
    """How many bytes the headers of a record take."""
    return sum(len(name.encode(errors="replace")) + len(value) + HEADER_BYTES for name, value in headers)
