"""How staged extents become visible: tokens of prepared transactions, and their one entry in the journal."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from ....dsl.errors import SystemProblem
from ..problems import unknown_token
from . import frames
from .index import Extent, Index, Published
from .journal import Journal
from .lookup import extents_of
from .segments import segment_path

Checkpoints = Mapping[str, bytes]
Unless = Callable[[Checkpoints], bool]


class Prepared(Struct, frozen=True, array_like=True):
    """What a token holds. `number` counts the prepared transactions of a writer from 1; 0 is never published twice."""

    writer: str
    number: int
    extents: list[Extent]
    group: str
    checkpoints: dict[str, bytes]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Prepared).decode


def to_token(prepared: Prepared) -> bytes:
    """The bytes that stand for a prepared transaction; its records are on disk, not in them."""
    return frames.make(1, [_encode(prepared)])


def from_token(token: bytes, directory: Path) -> Prepared:
    """What `to_token` was given; raises SystemProblem for other bytes."""
    try:
        frame = frames.take(token, 0)
        if frame is None or frame.stop != len(token):
            raise unknown_token(f"log:{directory}", "it is cut short or too long")
        return _decode(frame.payload)
    except (frames.DamagedFrame, msgspec.DecodeError) as error:
        raise unknown_token(f"log:{directory}", "its check sum does not match") from error


def publish(
    journal: Journal,
    transactions: Iterable[Prepared],
    group: str = "",
    checkpoints: Checkpoints | None = None,
    unless: Unless | None = None,
) -> bool:
    """Make transactions visible that are not yet, with checkpoints, in one entry; False where `unless` held."""
    with journal.exclusive() as index:
        if unless is not None and unless(index.checkpoints.get(group, {})):
            return False
        entry = _entry([*_fresh(transactions, index), Prepared("", 0, [], group, dict(checkpoints or {}))])
        for extent in entry.extents:
            _check(extent, index, journal.directory)
        if entry.extents or entry.checkpoints:
            journal.add(entry)
    return True


def _fresh(transactions: Iterable[Prepared], index: Index) -> Iterable[Prepared]:
    """The transactions that are not visible, each once."""
    seen: set[tuple[str, int]] = set()
    for one in transactions:
        name = (one.writer, one.number)
        if one.number and (name in seen or index.has_published(*name)):
            continue
        seen.add(name)
        yield one


def _entry(transactions: Sequence[Prepared]) -> Published:
    checkpoints: dict[str, dict[str, bytes]] = {}
    for one in transactions:
        if one.checkpoints:
            checkpoints.setdefault(one.group, {}).update(one.checkpoints)
    # A transaction without any effect may take it twice, so the journal need not remember it.
    tokens = [(one.writer, one.number) for one in transactions if one.number and (one.extents or one.checkpoints)]
    return Published([extent for one in transactions for extent in one.extents], tokens, checkpoints)


def _check(extent: Extent, index: Index, directory: Path) -> None:
    """Raise SystemProblem unless the stream is there, and the bytes of the extent."""
    extents_of(index, directory, extent.stream, extent.partition)
    path = segment_path(directory, extent.stream, extent.partition, extent.file)
    try:
        size = path.stat().st_size
    except FileNotFoundError as error:
        raise unknown_token(f"log:{directory}", f"{path} is gone, which vacuum may have removed") from error
    if size < extent.stop:
        raise SystemProblem(
            f"{path} has {size} bytes, expected {extent.stop} or more. A transaction was prepared without fsync and "
            "the machine stopped, or the file was cut. Produce the transaction again."
        )
