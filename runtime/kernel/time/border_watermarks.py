"""What travels beside the data in an intermediate stream: watermarks of the producers, and control messages.

A producer is a task of the stage that writes the stream; it is known by its number. Each record it writes carries a
stamp, the watermark it had then: behind the bytes of its value, or, where it has none, as its last header. (A header on
each would take as long as all else that is done for a record.) ControlMessage messages go to every partition and fill
the idle time.
"""

from struct import Struct as Layout

import msgspec

from ....dsl.message import Record

TRAILER_HEADER = "fluvial-stamp"
_LAYOUT = Layout(">Iq")
TRAILER_SIZE = _LAYOUT.size
_PRODUCERS = 1 << 24
"""More than a stage ever has. Text that somebody else has written into the stream would be a larger number."""

pack_trailer = _LAYOUT.pack
"""(producer, watermark in ms) as bytes."""


def unpack_trailer(trailer: bytes) -> tuple[int, int]:
    """The producer and its watermark; raises ValueError for bytes that no stage has written."""
    producer, watermark = _LAYOUT.unpack(trailer)
    if producer >= _PRODUCERS:
        raise _foreign(trailer)
    return producer, watermark


def with_trailer(record: Record, trailer: bytes) -> Record:
    """A record as it crosses a border."""
    key, value, timestamp, headers = record
    if value is None:
        return key, None, timestamp, (*headers, (TRAILER_HEADER, trailer))
    return key, value + trailer, timestamp, headers


def without_trailer(record: Record) -> Record:
    """A record as it was before it crossed a border."""
    key, value, timestamp, headers = record
    if value is None:
        return key, None, timestamp, headers[:-1]
    return key, value[:-TRAILER_SIZE], timestamp, headers


class ControlMessage(msgspec.Struct, frozen=True, array_like=True):
    """A control message: this producer's watermark, whether its input has ended, and whether nothing comes for now.

    `run` and `generation` name the run and the assignment that wrote it, `producers` how many there are: a message of
    another run or assignment ends nothing.
    """

    run: str
    generation: int
    producer: int
    producers: int
    watermark: int
    ended: bool
    idle: bool = False


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ControlMessage).decode


def control_record(control: ControlMessage, timestamp: int) -> tuple[None, None, int, tuple[tuple[str, bytes], ...]]:
    """A control message as a record: no key, no value, one header."""
    return None, None, timestamp, ((TRAILER_HEADER, _encode(control)),)


def read_control(trailer: bytes) -> ControlMessage | None:
    """The control message in a stamp; None if it is a record's. Raises ValueError for bytes that no stage wrote."""
    if len(trailer) == TRAILER_SIZE:
        return None
    try:
        return _decode(trailer)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise _foreign(trailer) from None


def _foreign(trailer: bytes) -> ValueError:
    """The error of a message that somebody else has written into a stream between stages."""
    return ValueError(f"no stage of this pipeline wrote the message: it ends with {trailer!r}, which is no watermark")
