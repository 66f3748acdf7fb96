"""Numbers in Avro's encoding, seven bits a byte. Tables and caches save most of the work."""

from functools import lru_cache

from .avro_types import Unfit


def varint(number: int) -> bytes:
    """A number in seven bits a byte, the lowest bits first; the lowest bit is the sign."""
    bits = (number << 1) ^ (number >> 63)
    if bits > 16383:
        return _LOWEST[bits & 16383] + _upper(bits >> 14)
    return bytes((bits & 127 | 128, bits >> 7)) if bits > 127 else bytes((bits,))


@lru_cache(maxsize=4096)
def _upper(above: int) -> bytes:
    """The bits of a number above its 14 lowest: timestamps that are close to each other share them."""
    if above >> 50:
        raise Unfit
    encoded = bytearray()
    while above > 127:
        encoded.append(above & 127 | 128)
        above >>= 7
    encoded.append(above)
    return bytes(encoded)


_LOWEST = tuple(bytes((bits & 127 | 128, bits >> 7 | 128)) for bits in range(16384))
"""The 14 lowest bits of longer numbers."""
SMALL = tuple(varint(number) for number in (*range(8192), *range(-8192, 0)))
"""The encoded numbers from -8192 to 8191, which have one or two bytes."""
NUMBERS = tuple(None if byte > 127 else (byte >> 1) ^ -(byte & 1) for byte in range(256))
"""The numbers of one byte, by the byte; None if more bytes follow."""
SIZES = tuple(None if number is None or number < 0 else number for number in NUMBERS)
"""The same for numbers that must not be negative."""
# An entry serves the timestamps of 8 s, so these cover nine hours. Then all are dropped, which is simpler than the
# oldest alone, and costs one slow number for each 8 s.
_MOST_UPPER = 4096
UPPER: dict[bytes, int] = {}
"""A cache: the value of the last four bytes of a number of six bytes, by these bytes. The value is less the
continuation bits of the first two bytes. Timestamps in ms have six bytes, and near ones share the last four."""


def read_number(data: bytes, start: int) -> tuple[int, int]:
    """A number, and the index after it."""
    at, bits, shift = start, 0, 0
    while (byte := data[at]) > 127:
        bits |= (byte & 127) << shift
        shift += 7
        at += 1
    bits |= byte << shift
    # Left to fastavro, which says what is wrong with the message.
    if bits >> 64:
        raise Unfit
    at += 1
    if at - start == 6:
        if len(UPPER) >= _MOST_UPPER:
            UPPER.clear()
        UPPER[data[start + 2 : at]] = (bits >> 14 << 14) - (128 + (128 << 7))
    return (bits >> 1) ^ -(bits & 1), at


def read_size(data: bytes, start: int) -> tuple[int, int]:
    """Read a number that must not be negative, as `read_number` does. Raises Unfit for a negative one."""
    number, at = read_number(data, start)
    if number < 0:
        raise Unfit
    return number, at
