"""How a message names its schema: a zero, the id of the schema in 4 bytes, and the encoded value.

Where a schema describes several messages, as a file of Protobuf does, a path to the one that is meant comes first.
"""

import struct

_HEAD = struct.Struct(">bi")
# 64 bits in groups of seven: what goes on after these is no number, and may go on without end.
_LARGEST_VARINT = 10


def head(id: int) -> bytes:
    """What stands before a message with this schema.

    >>> head(7)
    b'\\x00\\x00\\x00\\x00\\x07'
    """
    return _HEAD.pack(0, id)


def split(data: bytes) -> tuple[int, bytes]:
    """The schema's id, and what follows it. Raises ValueError for bytes that do not name a schema.

    >>> split(head(7) + b"rest")
    (7, b'rest')
    """
    if len(data) < _HEAD.size:
        raise ValueError(f"{len(data)} bytes name no schema: expected a zero, the schema's id in 4 bytes, and a value")
    magic, id = _HEAD.unpack_from(data)
    if magic != 0 or id < 0:
        raise ValueError(
            f"the message begins with {data[: _HEAD.size].hex(' ')}, which names no schema: expected a zero and the "
            "schema's id; was it written with a registry?"
        )
    return id, data[_HEAD.size :]


def path_bytes(path: tuple[int, ...]) -> bytes:
    """The path to a message in a file of Protobuf: which of the file's messages, which of those nested in it, and on.

    >>> path_bytes((0,)), path_bytes((1, 0))
    (b'\\x00', b'\\x04\\x02\\x00')
    """
    if path == (0,):
        return b"\x00"
    return b"".join(_varint(2 * number) for number in (len(path), *path))


def split_path(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The path that bytes begin with, and what follows it. Raises ValueError where there is none.

    >>> split_path(path_bytes((1, 0)) + b"rest")
    ((1, 0), b'rest')
    """
    count, at = _read(data, 0)
    if count == 0:
        return (0,), data[at:]
    path: list[int] = []
    for _ in range(count):
        number, at = _read(data, at)
        path.append(number)
    return tuple(path), data[at:]


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _read(data: bytes, at: int) -> tuple[int, int]:
    """A whole number that is not negative, zigzag encoded, and the index after it."""
    number = 0
    for index, byte in enumerate(data[at : at + _LARGEST_VARINT]):
        number |= (byte & 0x7F) << 7 * index
        if byte < 0x80:
            if number & 1:
                break
            return number >> 1, at + index + 1
    raise ValueError(f"bytes {data[at : at + _LARGEST_VARINT].hex(' ') or 'none'} are no path to a message of Protobuf")
