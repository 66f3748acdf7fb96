"""Splits the state of a key bucket over several, where a query gets more buckets.

The new number is a multiple of the old one, so each new bucket has a part of the keys of one old bucket. It begins with
the entries of these keys, and with the positions of the old bucket: time has come as far for each of its keys.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from zlib import crc32

import msgspec

from ....dsl.errors import SystemProblem
from ....dsl.operators import Deduplicate, Process, WindowBy
from ....dsl.validation import explain
from ....planner.state_schema import STATE, StateSchema
from ...kernel.chunked_values import key_of_chunk
from ...kernel.operators.state_entries import key_and_name
from ...kernel.state_backend import Change
from ...kernel.windows.triggered import TIMERS, key_of_timer
from .page_deltas import Blobs
from .page_index import SHIFT, DeltaIndex
from .state_pages import INDEX, StatePages

_CHUNKS = b"\1"
"""What the prefix of chunks has behind the operator, in front of that of their values."""
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
    found = {level for stage, level in levels.items() if stage in ran}
    if blobs and not found:
        known = ", ".join(f"level {level} has {stage}" for stage, level in levels.items())
        wrong = f"the state in key bucket {bucket} is of {', '.join(ran) or 'no stage'}, which is at no level ({known})"
        raise SystemProblem(explain(wrong, "state of stages of the query", remedy, f"key bucket {bucket}"))
    return found


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
        changes[hashed % count].append(change)
    index = msgspec.structs.replace(
        pages.index, prefixes={}, shift=SHIFT, shared=1, shared_bytes=0, deltas=DeltaIndex()
    )
    found: dict[int, HeldBlobs] = {}
    for new, of_new in changes.items():
        found[new] = HeldBlobs({INDEX: _encode(index)})
        StatePages(found[new]).write(of_new)
    return found


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
) -> Iterator[tuple[int, Change]]:
    """The entries of a bucket's state, each with the hash of its key."""
    for prefix in [*pages.index.prefixes]:
        operator, _, rest = prefix.partition(b"\0")
        schema = states.get(operator.decode())
        for entry, value in pages.scan(prefix):
            key = None if schema is None else key_of_entry(schema, rest, entry)
            hashed = None if key is None else crc32(key)
            if hashed is None or hashed % before != bucket:
                raise _foreign(operator.decode(), bucket, remedy)
            yield hashed, (prefix, entry, value)


def key_of_entry(schema: StateSchema, rest: bytes, entry: bytes) -> bytes | None:
    """The key of the message to which an entry of state belongs, given what follows the operator in the prefix; None
    for an entry of a form that is not known."""
    if rest.startswith(_CHUNKS):
        return key_of_entry(schema, rest[len(_CHUNKS) :], key_of_chunk(entry))
    if schema.kind == Deduplicate.kind:
        return key_and_name(entry)[0]
    if schema.kind == WindowBy.kind and rest.startswith(TIMERS):
        return key_of_timer(entry)
    if schema.kind != Process.kind:
        return entry
    mark, state = rest[:1], rest[1:].partition(b"\0")[0].decode()
    if mark in (b"s", b"x"):  # values, and when they expire
        form = schema.facts.get(f"{STATE}{state}")
        if form is None:
            return None
        return key_and_name(entry)[0] if form.startswith("map") else entry
    # The heads of a map's names have the key alone; all else is by a name or a number, too: timers, and pieces.
    return entry if mark == b"n" and state else key_and_name(entry)[0]


def _foreign(operator: str, bucket: int, remedy: str) -> SystemProblem:
    wrong = f"the state of {operator!r} in key bucket {bucket} has an entry that does not tell the key that it is of"
    return SystemProblem(explain(wrong, "entries of keys of this bucket alone", remedy, operator))
