"""Changelogs: the changes of a store as records of a compacted stream, and a store rebuilt from them.

A change of the state of operator `id` is a record of the operator's changelog, in the partition of the task's number,
which the key buckets of that number share. Its key is the state's key without the id. Its value is the new bytes, or
none for a deletion. To replay is to write the records in their order. Records may be replayed more than once, as long
as the last one of each key is among them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ....dsl.message import Record
from ...kernel.state_backend import Change
from ...state.contract import TaskStore
from ...systems.contract import Consumer, ProducingAdmin, StreamPartition
from ..stores.store_keys import prefix_of

# An upper bound: a poll returns as soon as it has records.
POLL_SECONDS = 0.1

# A change of millions of keys, as where a window goes, must not be in memory twice.
CHUNK = 10_000
"""The most records in a piece."""


def change_records(changes: Iterable[Change], store: TaskStore, now: int) -> Iterator[tuple[str, list[Record]]]:
    """Changes as (operator, records), in pieces of one operator each; `now` is the time of the records, in ms since
    epoch.

    The last change of a key counts. A deletion of all keys under a prefix becomes a record for each of these keys that
    the store holds, for the store does not have the changes yet.
    """
    last_prefix, name, rest = b"", "", b""
    records: list[Record] = []
    for prefix, key, value in changes:
        # By identity: changes of one prefix come together, and share the object. Where they do not, a piece is only
        # shorter.
        if prefix is not last_prefix or len(records) >= CHUNK:
            if records:
                yield name, records
            records, last_prefix = [], prefix
            operator, _, rest = prefix.partition(b"\0")
            name = operator.decode()
        if key is not None:
            records.append((rest + key, value, now, ()))
            continue
        for held, _ in store.scan(prefix):
            records.append((rest + held, None, now, ()))
            if len(records) >= CHUNK:
                yield name, records
                records = []
    if records:
        yield name, records


class ChangelogOffsets:
    """The start and end offsets of a changelog at the start of a run, by partition, and the identity of its stream."""

    def __init__(self, admin: ProducingAdmin, stream: str) -> None:
        self.stream = stream
        self.identity = admin.identity(stream)
        self.starts = admin.starts(stream)
        self.ends = admin.ends(stream)


@dataclass(frozen=True, slots=True)
class ChangelogRange:
    """The part of a changelog to be read for a store: the offsets from `start` to before `end`, and of these the
    records whose keys it `owns`."""

    store: TaskStore
    operator: str
    partition: StreamPartition
    start: int
    end: int
    owns: Callable[[bytes], bool] | None = None

    def own(self, records: Iterable[Record]) -> Iterable[tuple[bytes, bytes | None]]:
        """The keys and values of those records that are the store's."""
        owns = self.owns
        pairs = ((key or b"", value) for key, value, _, _ in records)
        return pairs if owns is None else ((key, value) for key, value in pairs if owns(key))


def replay(consumer: Consumer, ranges: Sequence[ChangelogRange], on_batch: Callable[[int, int], None]) -> None:
    """Write the records of ranges into their stores. After each batch `on_batch` is called with the numbers of its
    records and of its offsets."""
    for span, records, passed in _read(consumer, ranges):
        prefix = prefix_of(span.operator)
        span.store.write((prefix, key, value) for key, value in span.own(records))
        on_batch(len(records), passed)


def undo_records(
    consumer: Consumer, ranges: Sequence[ChangelogRange], now: int
) -> Iterator[tuple[StreamPartition, list[Record]]]:
    """Records that undo what ranges hold: each key of a range, with the value that the store has."""
    keys: dict[ChangelogRange, set[bytes]] = {span: set() for span in ranges}
    for span, records, _ in _read(consumer, ranges):
        keys[span].update(key for key, _ in span.own(records))
    for span in ranges:
        prefix = prefix_of(span.operator)
        undone: list[Record] = [(key, span.store.get(prefix, key), now, ()) for key in sorted(keys[span])]
        if undone:
            yield span.partition, undone


def _read(consumer: Consumer, ranges: Sequence[ChangelogRange]) -> Iterator[tuple[ChangelogRange, list[Record], int]]:
    """The records of ranges, batch by batch, each with the number of offsets that the batch takes. A partition is read
    once for all its ranges. Offsets may have gaps, also at the end of a range: a batch counts as read up to its
    `next_offset`."""
    unread: dict[StreamPartition, list[ChangelogRange]] = {}
    for span in ranges:
        if span.start < span.end:
            unread.setdefault(span.partition, []).append(span)
    positions = {partition: min(span.start for span in spans) for partition, spans in unread.items()}
    if unread:
        consumer.assign(positions)
    while unread:
        for batch in consumer.poll(POLL_SECONDS, frozenset(unread)):
            partition = batch.stream, batch.partition
            for span in unread[partition]:
                part = batch.since(span.start).before(span.end)
                passed = part.next_offset - max(span.start, positions[partition])
                if passed > 0:
                    yield span, part.records, passed
            positions[partition] = batch.next_offset
            unread[partition] = [span for span in unread[partition] if span.end > batch.next_offset]
            if not unread[partition]:
                del unread[partition]
