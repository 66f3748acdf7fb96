"""Publication: staged extents become visible with one entry of the journal. Tokens name prepared transactions."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from ....dsl.errors import SystemProblem
from ..errors import unknown_token
from . import frames, marks
from .disk import OpenFiles, explained
from .errors import cut_short
from .index import Extent, LogIndex, Published, extents_of
from .journal import Journal
from .segments import Segment, Segments, segment_path

CheckpointBytes = Mapping[str, bytes]
Unless = Callable[[CheckpointBytes], bool]


class Prepared(Struct, frozen=True, array_like=True):
    """The content of a token. `number` counts the prepared transactions of a writer from 1; 0 stands for an unprepared
    transaction, which cannot be published twice."""

    writer: str
    number: int
    extents: list[Extent]
    group: str
    checkpoints: dict[str, bytes]


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Prepared).decode


def to_token(prepared: Prepared) -> bytes:
    """The token of a prepared transaction. The records are on disk, not in the token."""
    return frames.make(1, [_encode(prepared)])


def from_token(token: bytes, directory: Path) -> Prepared:
    """The transaction of a token. Raises SystemProblem for other bytes."""
    try:
        frame = frames.take(token, 0)
        if frame is None or frame.stop != len(token):
            raise unknown_token(f"log:{directory}", "it is cut short or too long")
        return _decode(frame.payload)
    except (frames.DamagedFrame, msgspec.DecodeError) as error:
        raise unknown_token(f"log:{directory}", "its check sum does not match") from error


def publish(
    journal: Journal,
    segments: Segments,
    transactions: Iterable[Prepared],
    group: str = "",
    checkpoints: CheckpointBytes | None = None,
    unless: Unless | None = None,
) -> bool:
    """Publish transactions that are not visible yet, and checkpoints, in one entry. False where `unless` returned True.

    The segments with the records get a mark of the entry, through the open files of the calling writer.
    """
    with journal.exclusive() as index:
        if unless is not None and unless(index.checkpoints.get(group, {})):
            return False
        # Under the lock: until the entry is written no other process publishes the same transactions.
        entry = _entry([*_fresh(transactions, index), Prepared("", 0, [], group, dict(checkpoints or {}))])
        marked = _check_all(entry.extents, index, journal.directory, segments)
        if entry.extents or entry.checkpoints:
            journal.add(entry)
            # After the entry: a mark of an entry that is not there would look like a journal that was cut.
            _mark(marked, journal.position, segments)
    return True


def _fresh(transactions: Iterable[Prepared], index: LogIndex) -> Iterable[Prepared]:
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
    # To publish an empty transaction twice changes nothing, so the journal need not remember it.
    tokens = [(one.writer, one.number) for one in transactions if one.number and (one.extents or one.checkpoints)]
    return Published([extent for one in transactions for extent in one.extents], tokens, checkpoints)


def _check_all(
    extents: Iterable[Extent], index: LogIndex, directory: Path, segments: Segments
) -> dict[Path, Segment | None]:
    """The files of extents that have space for a mark, each with its segment if this writer is still writing it.

    Raises SystemProblem where a stream or bytes of an extent do not exist.
    """
    stops: dict[Path, int] = {}
    segment_of: dict[Path, Segment | None] = {}
    for extent in extents:
        extents_of(index, directory, extent.stream, extent.partition)
        own = segments.current(extent)
        path = segment_path(directory, extent.stream, extent.partition, extent.file) if own is None else own.path
        segment_of[path] = own
        stops[path] = max(extent.stop, stops.get(path, 0))
    for path, stop in stops.items():
        _check(path, stop, directory, segments.files)
        if segment_of[path] is None and marks.read(segments.files.number(path), path) is None:
            del segment_of[path]
    return segment_of


def _check(path: Path, stop: int, directory: Path, files: OpenFiles) -> None:
    """Raise SystemProblem unless a segment is there and has the bytes before `stop`."""
    try:
        with explained("read", path):
            status = os.fstat(files.number(path))
    except SystemProblem as problem:
        if isinstance(problem.__cause__, FileNotFoundError):
            raise _gone(path, directory) from problem
        raise
    if not status.st_nlink:
        raise _gone(path, directory)
    if status.st_size < stop:
        raise cut_short(path, status.st_size, stop)


def _gone(path: Path, directory: Path) -> SystemProblem:
    return unknown_token(f"log:{directory}", f"{path} is gone, which vacuum may have removed")


def _mark(marked: Mapping[Path, Segment | None], position: int, segments: Segments) -> None:
    """Mark files with the entry that published bytes of them. A failure does no harm: the entry is written."""
    with suppress(OSError, SystemProblem):
        for path, own in marked.items():
            segments.mark(path, own, position)
