"""The page index of a bucket: how the bucket's state lies in pages, and how far its stages have come.

It is read and written in each batch in which the bucket runs, before all pages and behind them.
"""

import zlib
from collections.abc import Mapping
from typing import Any

import msgspec

from ...kernel.time.bounds import START
from ...kernel.time.position import POSITION_BY_OPERATOR, Cursor, Position
from ...kernel.time.watermark_node import slowest
from ..key_buckets import MOST

VERSION = 2
"""In version 1 a position had a watermark for each producer of a stream; now it has one for the whole stream."""
_ALWAYS = ("producers", *POSITION_BY_OPERATOR)
"""The fields of a position that are saved for every stage."""
_BY_CLOCK = ("idle", "rested", "clock")
"""The fields that are saved besides for a stage that depends on processing time."""
FULL = 2000
"""Entries to a page, on average, at which the number of pages doubles."""
FULL_BYTES = 256 << 10
"""Bytes of keys and values to a page, on average, at which the number of pages doubles: no entry is large, since the
kernel stores large values in chunks."""


SHIFT = MOST.bit_length() - 1
"""The low bits of a key's hash have chosen its bucket, so they are the same for all keys of a bucket."""
SHARED = b"\0shared"
"""The names of shared pages begin with it, those of all others with a prefix."""
_NUMBER = 3
"""Bytes of a page's number, at the end of its name."""


def page_name(prefix: bytes, number: int) -> bytes:
    """The name of a page.

    >>> name_parts(page_name(b"w", 7))
    (b'w', 7)
    """
    return prefix + number.to_bytes(_NUMBER, "big")


def name_parts(name: bytes) -> tuple[bytes, int]:
    """The prefix of a page, or SHARED, and its number."""
    return name[:-_NUMBER], int.from_bytes(name[-_NUMBER:], "big")


def page_number(hashed: int, pages: int) -> int:
    """The page of a hash, of so many pages. With one page more, only entries of one page move (linear hashing); with
    twice as many, half of each.

    >>> [page_number(hashed, 5) for hashed in range(9)]
    [0, 1, 2, 3, 4, 1, 2, 3, 0]
    """
    half = 1 << (pages.bit_length() - 1)
    number = hashed & (2 * half - 1)
    return number if number < pages else number - half


def split_page(pages: int) -> int:
    """The page whose entries are shared with the new one, where there were so many.

    >>> [split_page(pages) for pages in range(1, 9)]
    [0, 0, 1, 0, 1, 2, 3, 0]
    """
    return pages - (1 << (pages.bit_length() - 1))


class PrefixSize(msgspec.Struct, array_like=True):
    """How many pages of its own a prefix has, 0 where it is in a shared one, and how many entries and bytes it has. An
    earlier version did not count the bytes: of its entries those are counted that have changed since, and all of them
    once all pages have been written anew."""

    pages: int = 1
    entries: int = 0
    byte_count: int = 0

    @property
    def wanted(self) -> int:
        """How many pages there should be. Each page holds an entry at least."""
        return max(-(-self.entries // FULL), min(-(-self.byte_count // FULL_BYTES), self.entries), 1)

    def page_of(self, key: bytes, shift: int) -> int:
        """The number of a key's page."""
        return page_number(zlib.crc32(key) >> shift, self.pages)


class StoredDelta(msgspec.Struct, array_like=True):
    """A delta in Spark's state store: its number, how many bytes it has, and where merging stood when it was written,
    see `DeltaIndex`."""

    number: int
    byte_count: int
    round: int
    page: bytes


class DeltaIndex(msgspec.Struct, array_like=True):
    """The deltas of a bucket, from the oldest one, and how far they are merged into the pages.

    Pages are merged in the order of their names, round by round: `page` is the last one of this `round`. `credit` is
    how many bytes of pages may be merged still.
    """

    stored: list[StoredDelta] = []
    round: int = 0
    page: bytes = b""
    credit: int = 0

    def is_merged(self, delta: StoredDelta) -> bool:
        """Whether all pages have been merged since the delta was written."""
        return (self.round, self.page) >= (delta.round + 1, delta.page)


class PageIndex(msgspec.Struct, array_like=True):
    """The pages of each prefix in a bucket, and the positions of its inputs, by stage.

    The fields that `Position` has as well mean the same here. `resets` counts how often the state of an operator was
    removed. A key's page depends on its hash without the last `shift` bits. There are `shared` pages for prefixes with
    few entries. `deltas` has what is not in its page yet. The struct is an array in Spark's state store: new fields
    come last, and one that is no longer used stays.
    """

    version: int = VERSION
    prefixes: dict[bytes, PrefixSize] = {}
    highs: dict[str, dict[str, int]] = {}
    producers: dict[str, dict[str, dict[int, int]]] = {}
    idle: dict[str, dict[str, list[int]]] = {}
    clocks: dict[str, int] = {}
    met: dict[str, dict[str, int]] = {}
    heard: dict[str, dict[str, dict[int, int]]] = {}
    rested: dict[str, dict[str, dict[int, int]]] = {}
    resets: dict[str, int] = {}
    lateness: dict[str, dict[str, int]] = {}
    forgotten: dict[str, dict[str, int]] = {}
    reached: dict[str, dict[str, int]] = {}
    clock_fired: dict[str, dict[str, int]] = {}
    versions: dict[str, dict[str, int]] = {}
    built: dict[str, dict[str, int]] = {}
    fired_at_end: dict[str, dict[str, int]] = {}
    cursors: dict[str, dict[str, Cursor]] = {}
    shift: int = 8
    shared: int = 1
    shared_bytes: int = 0
    deltas: DeltaIndex = msgspec.field(default_factory=DeltaIndex)

    def position(self, stage: str) -> Position:
        """Where the stage was after the last batch of this bucket; the start of all inputs if it was not there yet."""
        fields = {name: self._by_stage(name) for name in (*_ALWAYS, *_BY_CLOCK, "met")}
        return Position(**{name: by_stage[stage] for name, by_stage in fields.items() if stage in by_stage})

    def remember(self, stage: str, position: Position, *, clocked: bool) -> None:
        """Save the position of a stage; `clocked` says whether the stage depends on processing time."""
        for name in (*_ALWAYS, *(_BY_CLOCK if clocked else ())):
            self._by_stage(name)[stage] = getattr(position, name)
        if clocked:
            self.met.pop(stage, None)

    def forget(self, operator: str) -> None:
        """Remove what positions say about the state of an operator."""
        for name in POSITION_BY_OPERATOR:
            for by_operator in self._by_stage(name).values():
                by_operator.pop(operator, None)

    def convert(self, producers: Mapping[str, int]) -> None:
        """Convert positions of version 1, where `producers` has the number of each stream's producers."""
        if self.version == VERSION:
            return
        self.version = VERSION
        self.heard = {}
        for stage, by_stream in self.producers.items():
            idle, rested = self.idle.pop(stage, {}), self.rested.pop(stage, {})
            whole: dict[str, dict[int, int]] = {}
            for stream, marks in by_stream.items():
                # Before all producers had reported, the stream had no watermark.
                if len(marks) == producers.get(stream):
                    resting = dict.fromkeys(idle.get(stream, ()), START) | rested.get(stream, {})
                    least, _ = slowest(
                        (max(resting.get(one, mark), mark), one in resting) for one, mark in marks.items()
                    )
                    whole[stream] = {0: least}
            self.producers[stage] = whole

    def _by_stage(self, name: str) -> dict[str, Any]:
        """The values of a field of `Position`, by stage."""
        by_stage: dict[str, Any] = getattr(self, "clocks" if name == "clock" else name)
        return by_stage
