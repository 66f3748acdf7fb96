"""What an intermediate stream carries besides messages: the watermarks of its producers, and control messages.

A producer is a task of the stage that writes the stream. It is known by its number. Each record that it writes has a
trailer with the number and the watermark of that moment: behind the bytes of the value, or, in a record without value,
as the last header. (A header on each record would take as long as all other work on a record.) Control messages go to
every partition. They report progress when there are no records."""

from struct import Struct as Layout

import msgspec

from ....dsl.message import Record
from ...size_limit import HEADER_BYTES

TRAILER_HEADER = "fluvial-stamp"
_LAYOUT = Layout(">Iq")
TRAILER_SIZE = _LAYOUT.size
TRAILER_BYTES = TRAILER_SIZE + len(TRAILER_HEADER) + HEADER_BYTES
"""What a record gets longer by its trailer, at most."""
_PRODUCERS = 1 << 24
"""More than a stage ever has. Text that another program wrote into the stream would decode as a larger number."""

pack_trailer = _LAYOUT.pack
"""(producer, watermark in ms) as bytes."""


def unpack_trailer(trailer: bytes) -> tuple[int, int]:
    """The producer and its watermark; raises ValueError for bytes that no stage has written."""
    producer, watermark = _LAYOUT.unpack(trailer)
    if producer >= _PRODUCERS:
        raise _foreign(trailer)
    return producer, watermark


def with_trailer(record: Record, trailer: bytes) -> Record:
    """The trailer lies behind the bytes of the value; a tombstone, which has none, has it as its last header."""
    key, value, timestamp, headers = record
    if value is None:
        return key, None, timestamp, (*headers, (TRAILER_HEADER, trailer))
    return key, value + trailer, timestamp, headers


def without_trailer(record: Record) -> Record:
    """What `with_trailer` was given. A record without a trailer loses its last bytes or header: nothing is checked."""
    key, value, timestamp, headers = record
    if value is None:
        return key, None, timestamp, headers[:-1]
    return key, value[:-TRAILER_SIZE], timestamp, headers


def watermark_of(record: Record) -> int:
    """The watermark in the trailer of a record, in ms since epoch."""
    _, value, _, headers = record
    watermark: int = _LAYOUT.unpack(headers[-1][1] if value is None else value[-TRAILER_SIZE:])[1]
    return watermark


class ControlMessage(msgspec.Struct, frozen=True, array_like=True):
    """A control message: the watermark of a producer, whether its input has ended, and whether it is idle.

    `run` and `generation` identify the run and the assignment that wrote it, and `producers` is the number of
    producers as the stage has the elasticity of this one. A control message of another run ends no input. In the last
    one of a task that is split, `parts` is the number of its parts.
    """

    run: str
    generation: int
    producer: int
    producers: int
    watermark: int
    ended: bool
    idle: bool = False
    parts: int = 0


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ControlMessage).decode


def control_record(control: ControlMessage, timestamp: int) -> tuple[None, None, int, tuple[tuple[str, bytes], ...]]:
    """A control message as a record: no key, no value, one header."""
    fields = msgspec.structs.astuple(control)
    # Without `parts` the bytes are those of versions that know nothing of them.
    return None, None, timestamp, ((TRAILER_HEADER, _encode(fields if control.parts else fields[:-1])),)


def read_control(trailer: bytes) -> ControlMessage | None:
    """The control message in these bytes; None if they are a trailer. Raises ValueError for bytes that no stage
    wrote."""
    if len(trailer) == TRAILER_SIZE:
        return None
    try:
        return _decode(trailer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _foreign(trailer) from None


def _foreign(trailer: bytes) -> ValueError:
    """The error of a message that another program has written into an intermediate stream."""
    return ValueError(f"no stage of this pipeline wrote the message: it ends with {trailer!r}, which is no watermark")
