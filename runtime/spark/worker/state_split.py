"""Splits the state of a key bucket over several, where a query gets more buckets.

The new number is a multiple of the old one, so each new bucket has a part of the keys of one old bucket. It begins with
the entries of these keys, and with the positions of the old bucket: time has come as far for each of its keys.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from zlib import crc32

import msgspec

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ....planner.state_schema import StateSchema
from ...kernel.state_backend import Change
from ...kernel.state_keys import is_of_all_keys, key_of_entry
from .page_deltas import Blobs
from .page_index import SHIFT, DeltaIndex
from .state_pages import INDEX, StatePages

_encode = msgspec.msgpack.Encoder().encode


class HeldBlobs(dict[bytes, bytes]):
    """What is stored of a bucket, in memory."""

    def put(self, name: bytes, data: bytes) -> None:
        """Store something, in place of what has that name."""
        self[name] = data

    def remove(self, name: bytes) -> None:
        """Remove what has that name."""
        self.pop(name, None)


def levels_in(blobs: HeldBlobs, bucket: int, levels: Mapping[str, int], *, remedy: str = "") -> set[int]:
    """The levels of the stages that have run on a bucket, of the query's stages with their `levels`. Raises
    SystemProblem for state of none of them, which would be lost."""
    ran = StatePages(blobs).index.producers
    present = {level for stage, level in levels.items() if stage in ran}
    if blobs and not present:
        known = ", ".join(f"level {level} has {stage}" for stage, level in levels.items())
        wrong = f"the state in key bucket {bucket} is of {', '.join(ran) or 'no stage'}, which is at no level ({known})"
        raise SystemProblem(explain(wrong, "state of stages of the query", remedy, f"key bucket {bucket}"))
    return present


def split_state(
    blobs: Blobs,
    bucket: int,
    before: int,
    count: int,
    states: Mapping[str, StateSchema],
    producers: Mapping[str, int],
    resets: Mapping[str, int] = MappingProxyType({}),
    *,
    remedy: str = "",
) -> dict[int, HeldBlobs]:
    """The state of a bucket of `before`, split over those of `count`, by bucket. `states` has the schema of each
    operator's state, `producers` the number of each stream's producers so far. State that a reset has removed, by
    `resets`, is left out. Raises SystemProblem for an entry that does not tell its key."""
    pages = StatePages(blobs)
    if pages.empty:
        return {}
    pages.index.convert(producers)
    pages.reset(resets)
    changes: dict[int, list[Change]] = {new: [] for new in range(bucket, count, before)}
    for hashed, change in _hashed(pages, bucket, before, states, remedy):
        for new in changes if hashed is None else [hashed % count]:
            changes[new].append(change)
    index = msgspec.structs.replace(
        pages.index, prefixes={}, shift=SHIFT, shared=1, shared_bytes=0, deltas=DeltaIndex()
    )
    parts: dict[int, HeldBlobs] = {}
    for new, of_new in changes.items():
        parts[new] = HeldBlobs({INDEX: _encode(index)})
        StatePages(parts[new]).write(of_new)
    return parts


def check_state(
    blobs: Blobs,
    bucket: int,
    before: int,
    states: Mapping[str, StateSchema],
    resets: Mapping[str, int] = MappingProxyType({}),
    *,
    remedy: str = "",
) -> None:
    """Raise the error of `split_state`, if it would raise one. Nothing is split."""
    pages = StatePages(blobs)
    pages.reset(resets)
    for _ in _hashed(pages, bucket, before, states, remedy):
        pass


def _hashed(
    pages: StatePages, bucket: int, before: int, states: Mapping[str, StateSchema], remedy: str
) -> Iterator[tuple[int | None, Change]]:
    """The entries of a bucket's state, each with the hash of its key; None for one that is of all keys."""
    for prefix in [*pages.index.prefixes]:
        operator, _, rest = prefix.partition(b"\0")
        schema = states.get(operator.decode())
        for entry, value in pages.scan(prefix):
            if schema is not None and is_of_all_keys(schema, rest):
                yield None, (prefix, entry, value)
                continue
            key = None if schema is None else key_of_entry(schema, rest, entry)
            hashed = None if key is None else crc32(key)
            if hashed is None or hashed % before != bucket:
                raise _foreign(operator.decode(), bucket, remedy)
            yield hashed, (prefix, entry, value)


def _foreign(operator: str, bucket: int, remedy: str) -> SystemProblem:
    wrong = f"the state of {operator!r} in key bucket {bucket} has an entry that does not tell the key that it is of"
    return SystemProblem(explain(wrong, "entries of keys of this bucket alone", remedy, operator))
