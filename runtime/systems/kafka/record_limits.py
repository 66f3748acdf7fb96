"""How large a record of a topic may be: the broker's limit counts the batch that it comes in, as it is compressed."""

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ....dsl.message import Headers
from ...size_limit import SizeLimit, record_bytes
from .clients import LONGEST_BATCH, LONGEST_RECORD
from .settings import Setting

_AROUND = 512
"""Bytes for what is around a record: the head of its batch (61), its own lengths and times (36), the header of a time
that the topic does not take, and the client's own count of these."""
_GAINED = 1024
"""A broker that compresses makes what cannot be compressed longer, by less than one byte in so many."""

_CODECS = ("gzip", "zstd", "lz4", "snappy")
_BLOCK = 64 << 10
"""lz4 as the client uses it, and snappy, compress so many bytes at a time, each block without what came before."""
_LIKE_ZLIB: Mapping[str, tuple[float, int]] = {"lz4": (2.5, 200), "snappy": (2.5, 20)}
"""How many times as much as zlib a codec may make of a block, and one byte more of so many: what repeats a short text
becomes far shorter by zlib."""
_LIBRARIES: Mapping[str, int] = {"snappy": 16}
"""One byte in so many by which the client's codec may differ from Arrow's: snappy by 2.4%, the others by 1%."""
_ZSTD = 3
"""The level at which the client compresses with zstd. Another makes more of some values, also a lower one."""
_USUAL = -1
"""Of `compression.level`: the codec's own."""


@dataclass(frozen=True, slots=True)
class Compressed:
    """Says whether a record fits once the client has compressed it, at a level: into `largest` bytes, if it has no more
    than `uncompressed`."""

    codec: str
    largest: int
    uncompressed: int
    level: int = _USUAL

    def __call__(self, key: bytes | None, value: bytes | None, headers: Headers) -> bool:
        """Whether it fits. Takes as long as to compress it."""
        if record_bytes(key, value, headers) > self.uncompressed:
            return False
        parts = [key or b"", value or b"", *(part for name, text in headers for part in (name.encode(), text))]
        size = _compressed_bytes(self.codec, self.level, b"".join(parts))
        return size + size // _LIBRARIES.get(self.codec, 64) <= self.largest


def limit_of(stream: str, settings: Mapping[str, str | None], conf: Mapping[str, Setting]) -> SizeLimit:
    """The limit of the records of a topic with these settings, for a client with the settings `conf`."""
    client = int(str(conf.get("message.max.bytes", LONGEST_RECORD))) - _AROUND
    configured = settings.get("max.message.bytes")
    topic = client if configured is None else int(configured) - _AROUND
    if settings.get("compression.type", "producer") not in ("producer", "uncompressed"):
        topic -= max(topic, 0) // _GAINED
    if client <= topic:
        return SizeLimit(max(client, 0), "raise message.max.bytes among the settings of the client")
    raised = f"kafka-configs.sh --alter --topic {stream} --add-config max.message.bytes=..."
    remedy = f"raise max.message.bytes of the topic ({raised}) and start again"
    codec = str(conf.get("compression.type", conf.get("compression.codec", "none")))
    keeps_codec = settings.get("compression.type", "producer") in ("producer", codec)
    level = int(str(conf.get("compression.level", _USUAL)))
    fits = Compressed(codec, topic, client, level) if keeps_codec and codec in _CODECS else None
    return SizeLimit(max(topic, 0), remedy, fits)


def batch_of(topics: Iterable[Mapping[str, str | None]]) -> int:
    """How many bytes a client may put into one batch, so that each of the topics with these settings takes it: the
    client would fill one for a topic with as much as for another, and a broker refuses a batch as it does a record."""
    limits = [
        int(configured) - _AROUND
        for settings in topics
        if (configured := settings.get("max.message.bytes")) is not None
    ]
    return max(1, min([LONGEST_BATCH, *limits]))


def _compressed_bytes(codec: str, level: int, data: bytes) -> int:
    if codec == "gzip":
        return len(zlib.compress(data, min(level, 9)))
    arrow = _arrow()
    if arrow is None:
        return _guessed_bytes(codec, data)
    if codec == "zstd":
        zstd = arrow.Codec(codec, compression_level=_ZSTD if level == _USUAL else level)
        return len(zstd.compress(data, asbytes=True))
    return sum(len(arrow.compress(block, codec=codec, asbytes=True)) for block in _blocks(data))


def _guessed_bytes(codec: str, data: bytes) -> int:
    if codec == "zstd":
        return len(zlib.compress(data)) * 5 // 4
    times, repeated = _LIKE_ZLIB[codec]
    guessed = (min(int(len(zlib.compress(block)) * times), len(block)) for block in _blocks(data))
    return sum(guessed) + len(data) // repeated


def _blocks(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK))


def _arrow() -> Any:
    """The module of Arrow, which comes with Spark; None where it is not installed."""
    try:
        return import_module("pyarrow")
    except ImportError:
        return None
