"""`list_dead_letters`, `show_dead_letter`, `replay_dead_letters`, `drop_dead_letters`: operate on dead letters."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import cache, partial

from msgspec import Struct, structs

from ..dsl.errors import UsageError
from ..dsl.message import Record
from ..dsl.pipeline import Pipeline
from ..dsl.validation import explain, flag, require
from ..dsl.verb_calls import explained_call
from ..planner import stream_names as names
from .dead_letters import (
    BATCH_LETTERS,
    DeadLetter,
    Handling,
    handled_in,
    identity_of,
    letters_in,
    mark_of,
    unreplayable,
    whole_message,
)
from .pipeline_reset import existing_system
from .process.clock import wall_clock
from .systems.contract import ProducingSystem, System

BATCH_BYTES = 4 << 20
"""About the most bytes of keys and values that are replayed in one transaction; one message may be larger."""


class LetterGroup(Struct, frozen=True, kw_only=True):
    """Dead letters of one operator, class of error and stream: how many, and the event times of the first and the last
    of them, in ms since epoch. `stream` is empty for results that failed without a message.

    >>> LetterGroup(operator="map-1", error="ValueError", stream="clicks", letters=2, first=0, last=9).letters
    2
    """

    operator: str
    error: str
    stream: str
    letters: int
    first: int
    last: int


class HandledLetters(Struct, frozen=True, kw_only=True):
    """What a call has done with dead letters: how many it has handled, and of which streams; how many it has left, by
    the reason.

    >>> HandledLetters(handled={"clicks": 2}, left={}).letters
    2
    """

    handled: dict[str, int]
    left: dict[str, int]

    @property
    def letters(self) -> int:
        """How many were handled."""
        return sum(self.handled.values())


@partial(explained_call, error=UsageError)
def list_dead_letters(
    pipeline: Pipeline, *, system: str | System = "log:.fluvial", handled: bool = False
) -> list[LetterGroup]:
    """The dead letters of a pipeline that are not handled, counted by operator, class of error and stream, the most
    first; with `handled` those that were replayed or dropped. It may run meanwhile.

    Reads the whole stream of dead letters. Raises UsageError for a log that does not exist.

    >>> from tempfile import mkdtemp
    >>> from fluvial.dsl import dead_letter
    >>> from fluvial.runtime import open_system, run
    >>> streams = open_system("log:" + mkdtemp())
    >>> streams.admin().create("numbers", 1)
    >>> writing = streams.producer().begin()
    >>> writing.append("numbers", 0, [(None, b"4", 5, ()), (None, b"0", 6, ())])
    >>> writing.commit()
    >>> pipeline = Pipeline("shares", on_error=dead_letter())
    >>> pipeline.stream("numbers", value=int).map(lambda number: 12 // number).send_to("shares")
    >>> report = run(pipeline, system=streams, until="end")
    >>> [(group.operator, group.error, group.letters) for group in list_dead_letters(pipeline, system=streams)]
    [('map-2', 'ZeroDivisionError', 1)]
    """
    flag("list_dead_letters: handled", handled)
    streams = _system_of(pipeline, system)
    done = handled_in(streams, pipeline)
    groups: dict[tuple[str, str, str], LetterGroup] = {}
    for letter in letters_in(streams, pipeline):
        if ((letter.partition, letter.offset) in done) != handled:
            continue
        of, at = (letter.operator, letter.error_class, letter.stream), letter.message[2]
        one = groups.get(of) or LetterGroup(operator=of[0], error=of[1], stream=of[2], letters=0, first=at, last=at)
        groups[of] = structs.replace(one, letters=one.letters + 1, first=min(one.first, at), last=max(one.last, at))
    return sorted(groups.values(), key=lambda group: (-group.letters, group.operator, group.error, group.stream))


@partial(explained_call, error=UsageError)
def show_dead_letter(
    pipeline: Pipeline, letter: str, *, system: str | System = "log:.fluvial"
) -> tuple[DeadLetter, Handling | None]:
    """One dead letter by its place in the stream of dead letters, `PARTITION:OFFSET`, and what was done with it.

    Raises UsageError where there is none, and for a log that does not exist.

    >>> show_dead_letter(pipeline, "0:12", system="kafka://localhost:9092")  # doctest: +SKIP
    """
    streams, wanted = _system_of(pipeline, system), _place_of(letter)
    first = next(letters_in(streams, pipeline, {wanted}), None)
    if first is None:
        raise _no_letter(pipeline, letter)
    return first, handled_in(streams, pipeline).get(wanted)


@partial(explained_call, error=UsageError)
def replay_dead_letters(
    pipeline: Pipeline,
    *,
    letters: Sequence[str] | None = None,
    operator: str | None = None,
    system: str | System = "log:.fluvial",
    dry_run: bool = False,
) -> HandledLetters:
    """Send the messages of dead letters back to the streams and partitions that they were read from, so that the
    pipeline processes them again; all that are not handled, or those with a place in `letters` (`PARTITION:OFFSET`), or
    of an `operator`. The pipeline may run meanwhile. With `dry_run` nothing is sent.

    A message and the mark that it was replayed become visible together: each is sent once, wherever the call is cut
    off. Left, and listed by reason, are results that failed without a message, messages of streams between two stages
    or that are gone, and long ones whose place is gone. Two calls at once: on a log the second raises SystemProblem, on
    Kafka the first.

    Raises UsageError for a place without a dead letter, and for a log that does not exist.

    >>> replay_dead_letters(pipeline, operator="map-2", system="kafka://localhost:9092")  # doctest: +SKIP
    """
    return _handle(pipeline, "replayed", letters, operator, system, dry_run=dry_run)


@partial(explained_call, error=UsageError)
def drop_dead_letters(
    pipeline: Pipeline,
    *,
    letters: Sequence[str] | None = None,
    operator: str | None = None,
    system: str | System = "log:.fluvial",
    dry_run: bool = False,
) -> HandledLetters:
    """Mark dead letters as handled, so that they are not listed and not replayed; which, as for `replay_dead_letters`.
    They stay in their stream.

    Raises UsageError for a place without a dead letter, and for a log that does not exist.

    >>> drop_dead_letters(pipeline, letters=["0:12"], system="kafka://localhost:9092")  # doctest: +SKIP
    """
    return _handle(pipeline, "dropped", letters, operator, system, dry_run=dry_run)


def _system_of(pipeline: object, system: str | System) -> System:
    """The system that has the dead letters of a pipeline."""
    require(
        isinstance(pipeline, Pipeline), UsageError, f"{pipeline!r} is no pipeline", "a Pipeline", "pass the pipeline"
    )
    return existing_system(system)


def _handle(
    pipeline: Pipeline,
    handling: Handling,
    letters: Sequence[str] | None,
    operator: str | None,
    system: str | System,
    *,
    dry_run: bool,
) -> HandledLetters:
    flag("dead letters: dry_run", dry_run)
    several = isinstance(letters, Sequence) and not isinstance(letters, str | bytes) and bool(letters)
    remedy = 'write letters=["0:12"]'
    require(letters is None or several, UsageError, f"letters={letters!r}", "places, one or more", remedy)
    good = operator is None or (isinstance(operator, str) and operator != "")
    require(good, UsageError, f"operator={operator!r}", "the id of an operator", 'write operator="map-1"')
    wanted = None if letters is None else {_place_of(letter): letter for letter in letters}
    streams = _system_of(pipeline, system)
    found: Iterable[DeadLetter] = letters_in(streams, pipeline, wanted)
    if wanted is not None:
        # All at once, so that nothing is sent where one is missing: whoever names letters names few.
        found = [*found]
        for absent in sorted(wanted.keys() - {(letter.partition, letter.offset) for letter in found}):
            raise _no_letter(pipeline, wanted[absent])
    handled, left, batch = Counter[str](), Counter[str](), _Batch()
    why_left = _why_left(streams, pipeline)
    with _marking(streams, pipeline, dry_run=dry_run) as (done, write):
        for letter in found:
            place = (letter.partition, letter.offset)
            meant = operator in (None, letter.operator)
            # Those of before are nothing to tell of where all are meant.
            if not meant or (wanted is None and place in done):
                continue
            message, reason = _outcome(streams, handling, letter, done.get(place), why_left)
            if reason is not None:
                left[reason] += 1
                continue
            handled[letter.stream] += 1
            batch.add(letter, message)
            if batch.full:
                write(handling, batch.taken())
        if batch.letters:
            write(handling, batch.taken())
    return HandledLetters(handled=dict(handled), left=dict(left))


_Letters = Sequence[tuple[DeadLetter, Record | None]]
"""Dead letters with the messages that are sent for them."""


class _Batch:
    """The letters of the next transaction."""

    def __init__(self) -> None:
        self.letters: list[tuple[DeadLetter, Record | None]] = []
        self._bytes = 0

    def add(self, letter: DeadLetter, message: Record | None) -> None:
        self.letters.append((letter, message))
        self._bytes += 0 if message is None else len(message[0] or b"") + len(message[1] or b"")

    @property
    def full(self) -> bool:
        return len(self.letters) >= BATCH_LETTERS or self._bytes >= BATCH_BYTES

    def taken(self) -> _Letters:
        letters, self.letters, self._bytes = self.letters, [], 0
        return letters


_Write = Callable[[Handling, _Letters], None]


@contextmanager
def _marking(
    system: System, pipeline: Pipeline, *, dry_run: bool, wall: Callable[[], int] = wall_clock
) -> Iterator[tuple[dict[tuple[int, int], Handling], _Write]]:
    """What was done with dead letters, and a function that sends messages of letters back and marks the letters, at one
    stroke. Nobody else marks letters of the pipeline while the context is open, or they take this one's place."""
    if dry_run or system.admin().partitions(names.dead_letters(pipeline.name)) is None:
        yield handled_in(system, pipeline), lambda *_: None
        return
    stream, identity = names.handled_letters(pipeline.name), identity_of(system, pipeline)
    system.admin().create(stream, 1, "checkpoints")

    def records(handling: Handling, batch: _Letters) -> Iterator[tuple[str, int, Sequence[Record]]]:
        for letter, message in batch:
            if message is not None and letter.origin is not None:
                yield letter.origin[0], letter.origin[1], [message]
        yield stream, 0, [mark_of(letter, handling, identity, wall()) for letter, _ in batch]

    if isinstance(system, ProducingSystem):
        # It fences another one that marks letters, whose commits are seen from here on.
        with closing(system.record_producer(stream)) as sending:

            def send(handling: Handling, batch: _Letters) -> None:
                sending.begin()
                for each in records(handling, batch):
                    sending.send(*each)
                sending.commit()

            yield handled_in(system, pipeline), send
        return
    with system.claim(pipeline.name, "dead-letters"), closing(system.producer()) as producer:

        def publish(handling: Handling, batch: _Letters) -> None:
            transaction = producer.begin()
            for each in records(handling, batch):
                transaction.append(*each)
            transaction.commit()

        yield handled_in(system, pipeline), publish


def _outcome(
    system: System,
    handling: Handling,
    letter: DeadLetter,
    before: Handling | None,
    why_left: Callable[[DeadLetter], str | None],
) -> tuple[Record | None, str | None]:
    """The message to send for a dead letter, if it is to be replayed, or why the letter is left; `why_left` tells that
    as far as its place says it."""
    if before is not None or handling == "dropped":
        return None, None if before is None else f"{before} before"
    reason = why_left(letter)
    if reason is not None:
        return None, reason
    message = whole_message(system, letter)
    return message, None if message is not None else f"of a long message the rest is not in {letter.stream} any more"


def _why_left(system: System, pipeline: Pipeline) -> Callable[[DeadLetter], str | None]:
    """Tells why the message of a dead letter cannot go back to its place; None if it can. It asks the system once for
    each stream."""
    of_stream, partitions = cache(partial(unreplayable, system, pipeline)), cache(system.admin().partitions)

    def why(letter: DeadLetter) -> str | None:
        reason = of_stream(letter.stream)
        if reason is not None or letter.origin is None:
            return reason
        stream, partition, _ = letter.origin  # a stream that was made anew may have fewer
        there = 0 <= partition < (partitions(stream) or 0)
        return None if there else f"{stream} does not have the partition any more that the message was read from"

    return why


def _place_of(letter: object) -> tuple[int, int]:
    partition, divided, offset = letter.partition(":") if isinstance(letter, str) else ("", "", "")
    good = bool(divided) and partition.isdecimal() and offset.isdecimal()
    require(good, UsageError, f"letter {letter!r}", "PARTITION:OFFSET", 'write "0:12"')
    return int(partition), int(offset)


def _no_letter(pipeline: Pipeline, place: str) -> UsageError:
    stream = names.dead_letters(pipeline.name)
    remedy = f"see which there are: fluvial consume {stream}"
    return UsageError(explain(f"there is no dead letter at {place} of {stream!r}", "PARTITION:OFFSET of one", remedy))
