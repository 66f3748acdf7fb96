"""Dead letters as they lie in their stream: which there are, what they were, and which are handled (ADR 0058)."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from msgspec import DecodeError, Struct, json

from ..dsl.message import Headers, Record
from ..dsl.pipeline import Pipeline
from ..planner import stream_names as names
from .kernel.failures import ERROR_HEADER
from .systems.contract import ProducingSystem, System
from .systems.reads import read_to_ends

Handling = Literal["replayed", "dropped"]
"""What was done with a dead letter."""

BATCH_LETTERS = 500
"""The most dead letters that are read, or replayed, at once."""
_SIZES = ("fluvial-value-size", "fluvial-key-size", "fluvial-headers-size")


class LetterMark(Struct, frozen=True, array_like=True):
    """The value of a record that marks a dead letter as handled; its key is the place of the letter. `identity` is that
    of the stream of dead letters where streams have one: of another stream with the same name it says nothing."""

    handling: Handling
    identity: str = ""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter: its partition and offset in the stream of dead letters, the message with its own headers, and the
    reason. `origin` is the place of the message, as stream, partition and offset; None for a result that failed without
    a message. `cut` says that the letter has a part of the message alone.

    >>> message = (b"k", b"0", 5, ())
    >>> letter = DeadLetter(0, 12, message, "ValueError: no", "map-1", "shares.py:4", ("numbers", 0, 41), cut=False)
    >>> letter.place, letter.error_class, letter.stream
    ('0:12', 'ValueError', 'numbers')
    """

    partition: int
    offset: int
    message: Record
    error: str
    operator: str
    written_at: str
    origin: tuple[str, int, int] | None
    cut: bool

    @property
    def place(self) -> str:
        """The partition and the offset of the letter, as the command line names it."""
        return f"{self.partition}:{self.offset}"

    @property
    def error_class(self) -> str:
        """The name of the error's class, such as `ZeroDivisionError`."""
        return self.error.partition(":")[0][:100]

    @property
    def stream(self) -> str:
        """The stream of the message; empty for a result that failed without one."""
        return "" if self.origin is None else self.origin[0]


def letters_in(
    system: System, pipeline: Pipeline, places: Collection[tuple[int, int]] | None = None
) -> Iterator[DeadLetter]:
    """All dead letters of a pipeline, up to the present end of their stream, by partition and offset, or those at some
    places. Records of other programs are left out."""
    stream = names.dead_letters(pipeline.name)
    admin = system.admin()
    if admin.partitions(stream) is None:
        return
    starts, ends = admin.starts(stream), admin.ends(stream)
    if places is not None:
        starts, ends = _around(places, starts, ends)
    batches = read_to_ends(system, stream, starts, ends, max_records=BATCH_LETTERS)
    with closing(batches):
        for batch in batches:
            for offset, record in zip(batch.offsets, batch.records, strict=True):
                if places is not None and (batch.partition, offset) not in places:
                    continue
                letter = letter_of(batch.partition, offset, record)
                if letter is not None:
                    yield letter


def _around(
    places: Collection[tuple[int, int]], starts: Sequence[int], ends: Sequence[int]
) -> tuple[list[int], list[int]]:
    """The offsets between which each partition is read: from the first of these places up to the last that is there."""
    offsets = [[offset for partition, offset in places if partition == at] for at in range(len(ends))]
    first = [max(start, min(wanted, default=end)) for wanted, start, end in zip(offsets, starts, ends, strict=True)]
    last = [min(end, max(wanted, default=-1) + 1) for wanted, end in zip(offsets, ends, strict=True)]
    return first, last


def letter_of(partition: int, offset: int, record: Record) -> DeadLetter | None:
    """The dead letter that a record is; None if it is another program's.

    >>> reasons = (("fluvial-error", b"ValueError: no"), ("fluvial-operator", b"map-1"))
    >>> letter = letter_of(0, 7, (b"k", b"v", 5, (("trace", b"1"), *reasons)))
    >>> letter.place, letter.message, letter.error_class, letter.origin
    ('0:7', (b'k', b'v', 5, (('trace', b'1'),)), 'ValueError', None)
    """
    key, value, timestamp, headers = record
    # The last one: a message that was a dead letter itself may bring others along.
    first = max((index for index, (name, _) in enumerate(headers) if name == ERROR_HEADER), default=None)
    if first is None:
        return None
    own: Headers = tuple(headers[:first])
    reasons = {name: data.decode(errors="replace") for name, data in headers[first:]}
    try:
        origin = (reasons["fluvial-stream"], int(reasons["fluvial-partition"]), int(reasons["fluvial-offset"]))
    except (KeyError, ValueError):
        origin = None
    return DeadLetter(
        partition,
        offset,
        (key, value, timestamp, own),
        reasons[ERROR_HEADER],
        reasons.get("fluvial-operator", ""),
        reasons.get("fluvial-written-at", ""),
        origin,
        any(name in reasons for name in _SIZES),
    )


def handled_in(system: System, pipeline: Pipeline) -> dict[tuple[int, int], Handling]:
    """What was done with dead letters, by their partition and offset. It takes some 200 bytes of memory for each."""
    stream = names.handled_letters(pipeline.name)
    admin = system.admin()
    if admin.partitions(stream) is None:
        return {}
    identity = identity_of(system, pipeline)
    handled: dict[tuple[int, int], Handling] = {}
    with closing(read_to_ends(system, stream, admin.starts(stream), admin.ends(stream))) as batches:
        for key, value, _, _ in (record for batch in batches for record in batch.records):
            try:
                mark = json.decode(value or b"", type=LetterMark)
                partition, _, offset = (key or b"").decode().partition(":")
                if mark.identity == identity:
                    handled[int(partition), int(offset)] = mark.handling
            except (DecodeError, ValueError):
                continue  # another program has written it
    return handled


def identity_of(system: System, pipeline: Pipeline) -> str:
    """The identity of the stream of dead letters; empty where streams have none."""
    return system.admin().identity(names.dead_letters(pipeline.name)) if isinstance(system, ProducingSystem) else ""


def mark_of(letter: DeadLetter, handling: Handling, identity: str, now: int) -> Record:
    """The record that marks a dead letter as handled at a time, in ms since epoch."""
    return letter.place.encode(), json.encode(LetterMark(handling, identity)), now, ()


def unreplayable(system: System, pipeline: Pipeline, stream: str) -> str | None:
    """Why the messages of dead letters cannot go back to a stream, which is empty for results that failed without a
    message; None if they can."""
    between = {names.intermediate(pipeline.name, border.id) for border in pipeline.borders}
    if not stream:
        return "a result that failed without a message: nothing holds what it was made of"
    if stream in between:
        return f"{stream} is between two stages: what comes there needs the watermarks of its stage"
    if stream not in {source.stream for source in pipeline.sources}:
        return f"{stream} is not read by the pipeline any more"
    return None if system.admin().partitions(stream) is not None else f"{stream} does not exist any more"


def whole_message(system: System, letter: DeadLetter) -> Record | None:
    """The message of a dead letter: from the letter, or from its place where the letter has a part of it. None where
    that is gone."""
    if not letter.cut:
        return letter.message
    assert letter.origin is not None
    stream, partition, offset = letter.origin
    admin = system.admin()
    ends = admin.ends(stream)
    if not admin.starts(stream)[partition] <= offset < ends[partition]:
        return None
    # Of the other partitions nothing is read.
    begin, until = [*ends], [*ends]
    begin[partition], until[partition] = offset, offset + 1
    with closing(read_to_ends(system, stream, begin, until, max_records=1)) as batches:
        for batch in batches:
            for at, record in zip(batch.offsets, batch.records, strict=True):
                if at == offset and _fits(letter, record):
                    return record
    return None


def _fits(letter: DeadLetter, record: Record) -> bool:
    """Whether a dead letter can be of this record, and the stream was not made anew since."""
    key, value, timestamp, _ = letter.message
    return (
        timestamp == record[2]
        and (record[0] or b"").startswith(key or b"")
        and (record[1] or b"").startswith(value or b"")
    )
