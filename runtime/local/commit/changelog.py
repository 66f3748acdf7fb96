"""Changelogs: the changes of a store as records of a compacted stream, and a store rebuilt from them.

A change of operator `id` is a record of its changelog, in the partition of the task: the key is the state's key
without the id, the value the new bytes, none for a deletion. To replay is to write them again in their order, so that
records may be replayed more than once, as long as the last one is not left out.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ....dsl.message import Record
from ...kernel.state_cache import Change
from ...state.contract import TaskStore
from ...systems.contract import Consumer, SendingAdmin, StreamPartition
from .contract import prefix_of

POLL_SECONDS = 0.1

PIECE = 10_000
"""Records that are made before some are handed on."""


def logged(changes: Iterable[Change], store: TaskStore, now: int) -> Iterator[tuple[str, list[Record]]]:
    """Changes as records of the time `now` (ms since epoch), in pieces of one operator each; the last change of a key
    counts. Of what is deleted as a whole the store, which does not have the changes yet, tells the keys."""
    last_prefix, name, rest = b"", "", b""
    made: list[Record] = []
    for prefix, key, value in changes:
        if prefix is not last_prefix or len(made) >= PIECE:
            if made:
                yield name, made
            made, last_prefix = [], prefix
            operator, _, rest = prefix.partition(b"\0")
            name = operator.decode()
        if key is not None:
            made.append((rest + key, value, now, ()))
            continue
        for found, _ in store.scan(prefix):
            made.append((rest + found, None, now, ()))
            if len(made) >= PIECE:
                yield name, made
                made = []
    if made:
        yield name, made


class Log:
    """A changelog as it is at the start of a run: where its partitions start and end, and which stream it is."""

    def __init__(self, admin: SendingAdmin, stream: str) -> None:
        self.stream = stream
        self.identity = admin.identity(stream)
        self.starts = admin.starts(stream)
        self.ends = admin.ends(stream)


@dataclass(frozen=True, slots=True)
class Span:
    """What of a changelog is to be read for a store: the offsets from `start` to before `end`."""

    store: TaskStore
    operator: str
    place: StreamPartition
    start: int
    end: int


def replay(consumer: Consumer, spans: Sequence[Span], told: Callable[[int, int], None]) -> None:
    """Write what the spans hold into their stores. `told` is called with the records of each batch, and the offsets."""
    for span, found, passed in _read(consumer, spans):
        prefix = prefix_of(span.operator)
        span.store.write((prefix, key or b"", value) for key, value, _, _ in found)
        told(len(found), passed)


def present(consumer: Consumer, spans: Sequence[Span], now: int) -> Iterator[tuple[StreamPartition, list[Record]]]:
    """What the stores hold of the keys in the spans: records that undo what was sent and never committed."""
    keys: dict[StreamPartition, set[bytes]] = {}
    for span, held, _ in _read(consumer, spans):
        keys.setdefault(span.place, set()).update(record[0] or b"" for record in held)
    for span in spans:
        found, prefix = sorted(keys.get(span.place, ())), prefix_of(span.operator)
        made: list[Record] = [(key, span.store.get(prefix, key), now, ()) for key in found]
        if made:
            yield span.place, made


def _read(consumer: Consumer, spans: Sequence[Span]) -> Iterator[tuple[Span, list[Record], int]]:
    """The records of spans, and how many offsets they take. Offsets may have gaps, at their ends too: what a batch has
    passed counts as read."""
    owed = {span.place: span for span in spans if span.start < span.end}
    at = {place: span.start for place, span in owed.items()}
    if owed:
        consumer.assign(at)
    while owed:
        for batch in consumer.poll(POLL_SECONDS, frozenset(owed)):
            place = batch.stream, batch.partition
            part = batch.before(owed[place].end)
            yield owed[place], part.records, part.next_offset - at[place]
            at[place] = part.next_offset
            if part.next_offset >= owed[place].end:
                del owed[place]
