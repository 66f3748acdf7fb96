"""A stage at work: compiled code bound to the state, the outputs and the timeline of one task."""

import asyncio
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from ...dsl.checks import explain
from ...dsl.errors import FluvialError, PipelineError
from ...dsl.message import Record
from .bindings import bind
from .cells import Cell, Cells
from .counting import taken_in
from .failures import Failures, Where
from .inputs import Accepts, Inputs
from .lateness import Lateness
from .pool import Gate, Pool, Sleep
from .program import Position, Program
from .rebuilding import JoinedTables
from .stamps import unstamped
from .state import Bytes, Change, CountedReads, Size, evict
from .stateful import StatefulOperator
from .timeline import Timeline
from .times import START

MUCH = 1000
"""Results that are taken before more are made."""

EIGHTH = 8
"""What part of the entries that may be in memory may be read before the oldest are looked for."""

DEAD_LETTERS = "dead-letters"
"""Stands for an operator where `take` gives dead letters."""


@dataclass(slots=True)
class _Batch:
    """What is being fed: `records[start:]` of a partition and a mark for each of them, 1 once it has landed."""

    stream: str
    partition: int
    offsets: Sequence[int]
    records: Sequence[Record]
    start: int
    marks: bytearray


def _every(_: object) -> bool:
    return True


class StageTask:
    """One task of a stage. Not for use by two threads; asynchronous stages need a running event loop.

    `empty` says that nothing is kept in `below`, which saves reading there.

    `run` names the run, if one that is begun again goes on to the same end of input. `relief` is called when much is to
    be taken, in the middle of a firing.

    Feed it with `feed`, take what it made with `take`; `changes` and `position()` are what a commit must keep.
    """

    def __init__(
        self,
        program: Program,
        below: Bytes,
        *,
        empty: bool = False,
        position: Position | None = None,
        producer: int = 0,
        producers: Mapping[str, int] | None = None,
        accepts: Accepts = _every,
        sleep: Sleep = asyncio.sleep,
        gate: Gate | None = None,
        relief: Callable[[], None] | None = None,
        run: str = "",
    ) -> None:
        position = position or Position()
        self.program = program
        self.failures = Failures(program.plan.pipeline)
        self.error: BaseException | None = None
        self.late: dict[str, int] = {}
        self.keyless: dict[str, int] = {}
        self.fed = dict.fromkeys(program.shape.entries, 0)
        self.made = [0] * len(program.shape.operators)
        self.outputs: dict[str, list[Any]] = {}
        self.pools: dict[str, Pool] = {}
        self.stateful: dict[str, StatefulOperator] = {}
        self._fired: list[tuple[Any, ...]] | None = None
        self._batch = _Batch("", 0, (), (), 0, bytearray())
        self.cells = Cells(self._on_landed, self.fail_cell, self._follow, self)
        shape = program.shape
        self.timeline = Timeline(shape.lines, self.cells.floor, exact=shape.exact)
        opened = self.cells.opened
        self.inputs = Inputs(shape.entries, self.timeline, position, producers or {}, accepts, opened)
        self._relief = relief
        self.run = run
        self.lateness = Lateness(position)
        self.rung = dict(position.rung)
        self.clock_users: list[str] = []
        self._below = CountedReads(below)
        self._reads = bind(self, self._below, producer, empty, partial(Pool, sleep=sleep, gate=gate))
        self.joined = JoinedTables(shape.operators.values(), self.stateful, position, self.fail_firing)

    def _follow(self) -> None:
        """Let time follow a message that has landed; what raises is kept for `check`: workers have no caller."""
        try:
            self.timeline.follow()
        except Exception as raised:
            self.error = self.error or raised

    # Messages.

    def feed(
        self,
        stream: str,
        partition: int,
        offsets: Sequence[int],
        records: Sequence[Record],
        start: int = 0,
        stop: int | None = None,
        marks: bytearray | None = None,
    ) -> None:
        """Process `records[start:stop]` of one partition. Raises `MessageError` under `on_error=fail()`.

        In an asynchronous stage a byte of `marks`, one for each of them, becomes 1 once the message has landed.
        """
        self._batch = _Batch(stream, partition, offsets, records, start, marks or bytearray(len(records) - start))
        part = records if start == 0 and stop is None else records[start:stop]
        self.fed[stream] += len(part)
        self.inputs.arrived(stream)
        source = self.inputs.entries[stream].clock == "source"
        high = self._reads[stream](part, start, self.inputs.highs.get(stream, START) if source else None)
        if source and high > START:
            self.inputs.highs[stream] = high
        self.check()

    def tell_clock(self, now: int, active: Collection[str] | None = None) -> None:
        """It is now this time, in ms since epoch; what is due by it fires. `active` are the sources that have messages
        still to be processed, None where that is not known."""
        self.timeline.set_clock(now)
        if active is not None:
            self.inputs.rest(active)
        self.check()

    def rebuild(self, most: int) -> bool:
        """Make about so many rows of joined tables anew that are not made of what their tables have; whether more are
        left. To be called before `resume`, until none are."""
        left = bool(self.joined.stale) and self.joined.rebuild(most)
        self.check()
        return left

    def resume(self) -> None:
        """Let fire what fell due for an operator while the stage was without it. To be called before the first message,
        where what fires can be handed on."""
        self.timeline.resume()
        self.check()

    def check(self) -> None:
        """Raise what asynchronous work has failed with."""
        if self.error is not None:
            raise self.error

    @property
    def room(self) -> int:
        """How many messages may be fed now."""
        return min((pool.room for pool in self.pools.values()), default=1 << 30)

    @property
    def in_flight(self) -> int:
        """Asynchronous calls under way."""
        return sum(pool.in_flight for pool in self.pools.values())

    @property
    def taken_in(self) -> dict[str, int]:
        """How many messages each operator was given, since the task was made."""
        return taken_in(self.program.shape, self.fed, self.inputs.controls, self.made, self.failures.counts)

    @property
    def busy(self) -> bool:
        """Whether messages or firings are under way."""
        return self.program.asynchronous and len(self.cells) > 0

    def cancel(self) -> None:
        """Give up the calls under way."""
        for pool in self.pools.values():
            pool.cancel()

    def watermark_of(self, operator: str) -> int:
        """The watermark of what an operator is given, in ms since epoch; END once its inputs have ended. It is never
        less than the one up to which the operator has fired."""
        self.timeline.catch_up()
        return max(self.timeline.now[self.program.shape.line_in[operator]], self.timeline.reached_by(operator))

    def is_idle(self, operator: str) -> bool:
        """Whether nothing comes to an operator for now."""
        self.timeline.catch_up()
        return self.timeline.idle[self.program.shape.line_in[operator]]

    def told_watermark_of(self, operator: str) -> int:
        """The same, as the messages told it: the end of input does not count."""
        self.timeline.catch_up()
        return max(self.timeline.told[self.program.shape.line_in[operator]], self.timeline.reached_by(operator))

    # What was made, and what must be kept.

    def take(self) -> Iterator[tuple[str, list[Any]]]:
        """The outputs made since the last call, by operator: records, messages for a sink, late records of a window;
        and DEAD_LETTERS."""
        for id, made in (*self.outputs.items(), (DEAD_LETTERS, self.failures.letters)):
            if made:
                taken = made.copy()
                made.clear()
                yield id, taken

    def position(self) -> Position:
        """How far time had come for the messages that have landed."""
        position = self.inputs.position(self.cells.floor, self.cells.landed)
        self.lateness.tell(position, self.timeline.now, self.program.shape.line_out)
        if self.timeline.clock > START:
            self.rung.update(dict.fromkeys(self.clock_users, self.timeline.clock))
        position.rung = self.rung
        self.joined.tell(position)
        return position

    @property
    def changed(self) -> int:
        """How many values of state have changed since the last `settle`, about."""
        return sum(operator.changed for operator in self.stateful.values())

    def changes(self) -> Iterator[Change]:
        """The changes of state since the last `settle`."""
        for id, operator in self.stateful.items():
            try:
                yield from operator.changes()
            except FluvialError:
                raise
            except Exception as error:
                raise self._unkept(id, error) from error

    def _unkept(self, id: str, error: Exception) -> PipelineError:
        operator = self.program.shape.operators[id]
        wrong = f"the state of {operator.label} cannot be encoded: {type(error).__name__}: {error}"
        expected = "values of the type that is declared, and whole numbers of 64 bits at most"
        origin = operator.origin
        return PipelineError(explain(wrong, expected, "mend what add returns, or the type", origin))

    def settle(self, entries: int, size: int = sys.maxsize) -> None:
        """The changes are kept; hold at most so many entries in memory, of so many bytes: see `Size`."""
        for operator in self.stateful.values():
            operator.settle()
        self._evict(Size(entries, size))

    def evict(self, most: Size) -> None:
        """Hold at most `most` entries in memory besides those that have changed, or an EIGHTH more: to be called now
        and then, for what is looked up is held too."""
        read = self._below.size
        if read.entries * EIGHTH >= most.entries or read.bytes * EIGHTH >= most.bytes:
            self._evict(most)

    def _evict(self, most: Size) -> None:
        self._below.begin()
        evict(chain.from_iterable(operator.layers() for operator in self.stateful.values()), most)

    # Failures and landing; called from compiled code.

    def fail_message(self, index: int, error: BaseException, operator: str | None = None) -> None:
        self.failures.message(self._where(self._batch, index), error, operator)

    def pass_message(self, index: int) -> None:
        """A message that opened no cell, since it is a control message or could not be decoded, has landed."""
        self._on_landed((self._batch, index))

    def message_opener(self, stream: str) -> Callable[[int, int], Cell]:
        """A function that opens a cell for a message of a stream, given its index and watermark."""
        lane = self.cells.lane(stream)

        def open_message(index: int, watermark: int) -> Cell:
            cell = Cell(watermark, (self._batch, index), lane)
            lane.append(cell)
            lane.opened += 1
            return cell

        return open_message

    def fail_cell(self, cell: Cell, error: BaseException, operator: str | None = None) -> None:
        """A message in a cell failed. What `on_error=fail()` raises is kept for `check`: workers have no caller."""
        cell.failed = True
        try:
            if len(cell.where) == 4:
                self.failures.firing(*cell.where, error)
            else:
                self.failures.message(self._where(*cell.where), error, operator)
        except Exception as raised:
            self.error = self.error or raised

    def fail_firing(self, operator: str, key: bytes, value: Any, timestamp: int, error: Exception) -> None:
        """A pane or a joined row has no value. Workers have no caller: see `fail_cell`."""
        try:
            self.failures.firing(operator, key, value, timestamp, error)
        except Exception as raised:
            if not self.program.asynchronous:
                raise
            self.error = self.error or raised

    def firing(self, line: int, time: int) -> None:
        """A stateful operator is about to fire what was due at a time."""
        self.relieve()
        self.timeline.firing(line, time)

    def relieve(self) -> None:
        """Much may have been made since the last message: let those who take it have their turn."""
        if self._relief is not None and sum(map(len, self.outputs.values())) >= MUCH:
            self._relief()

    def emitter(self, emit: Callable[..., None]) -> Callable[..., None]:
        """Hands on what a stateful operator emits, or its failure; what a message has let fire not before all that the
        message does to state is done."""
        if not self.program.takes_back:
            return emit

        def hand_on(*fired: Any) -> None:
            if self._fired is None:
                emit(*fired)
            else:
                self._fired.append((emit, fired))

        return hand_on

    def emit_fired(self) -> None:
        """A message has done to state all that it was to do: hand on what waited for that."""
        waiting, self._fired = self._fired, None
        for emit, fired in waiting or ():
            emit(*fired)

    def drop_fired(self) -> None:
        """It failed: nothing has fired."""
        self._fired = None

    def undo(self, operator: str, message: tuple[Any, ...]) -> Callable[[], None]:
        """What takes back the effect that a message is about to have on a stateful operator, should one after it
        fail."""
        restore = self.stateful[operator].undo(message[0], message[2])
        if self._fired is None:
            self._fired = []
        late, count, records = self.late, self.late.get(operator), self.outputs.get(operator, [])
        length = len(records)

        def take_back() -> None:
            restore()
            del records[length:]
            if count is not None:
                late[operator] = count
            else:
                late.pop(operator, None)

        return take_back

    def _on_landed(self, where: tuple[Any, ...]) -> None:
        # Under on_error=fail() a message that failed never lands.
        if len(where) == 2 and self.error is None:
            batch, index = where
            batch.marks[index - batch.start] = 1

    def _where(self, batch: _Batch, index: int) -> Where:
        record = batch.records[index]
        if self.inputs.entries[batch.stream].clock == "stamps":
            record = unstamped(record)
        return Where(batch.stream, batch.partition, batch.offsets[index], record)
