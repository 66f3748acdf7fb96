"""How far the inputs of a task have come: from timestamps, from the stamps of producers, from control messages, and
where nothing comes from the clock."""

from collections.abc import Callable, Collection, Mapping

from .program import Position
from .shape import Entry
from .stamps import Control, read_control, unpack_stamp
from .timeline import Timeline, slowest
from .times import END, LATEST, START

Accepts = Callable[[Control], bool]
"""Whether a control message is of this run and assignment: others end nothing."""
Counts = Callable[[str], int]
"""A number of messages of a stream."""
_MANY = 256
"""Stamps that are remembered: a few of each producer."""


class Inputs:
    """The inputs of one task, and the timeline that they move. `producers` is how many write each intermediate
    stream; `controls` counts the control messages that came in each. `opened` tells how many messages of a stream came
    so far that may still be under way, where any may. `seen` holds stamps that tell nothing new as long as no
    producer becomes idle: producers take turns, and repeat theirs."""

    def __init__(
        self,
        entries: Mapping[str, Entry],
        timeline: Timeline,
        position: Position,
        producers: Mapping[str, int],
        accepts: Accepts,
        opened: Counts = lambda _: 0,
    ) -> None:
        self.entries = entries
        # What is known of an input that the pipeline no longer has is left out.
        self.highs = {stream: high for stream, high in position.highs.items() if stream in entries}
        self.controls: dict[str, int] = {}
        self.seen: dict[str, set[bytes]] = {stream: set() for stream in entries}
        self._timeline = timeline
        self._producers = position.producers
        self._expected = producers
        self._accepts = accepts
        self._opened = opened
        # By producer, how many messages came before it told the end.
        self._ended = {stream: dict.fromkeys(ended, 0) for stream, ended in position.ended.items()}
        self._idle = {stream: set(idle) for stream, idle in position.idle.items()}
        self._waits = _patience(entries)
        self._quiet_since: dict[str, int] = {}
        timeline.restore(self._known(), self._resting(), position.clock, position.met)

    def _resting(self) -> list[str]:
        """The inputs that were idle at the last commit."""
        found = [stream for stream in self._producers if self._least(stream)[1]]
        return [*found, *(stream for stream in self._waits if self._idle.get(stream))]

    def _known(self) -> dict[str, int]:
        found = {}
        for stream, entry in self.entries.items():
            if entry.source is not None and stream in self.highs:
                found[stream] = self.highs[stream] - entry.source.out_of_order
            elif stream in self._producers:
                found[stream] = self._least(stream)[0]
        return found

    def _least(self, stream: str) -> tuple[int, bool]:
        """The watermark of an intermediate stream, and whether it is idle: see `slowest`. Before all producers have
        told theirs, it has none."""
        told, idle = self._producers[stream], self._idle.get(stream)
        if len(told) < self._expected.get(stream, 1):
            return START, False
        if not idle:
            return min(told.values()), False
        return slowest((watermark, producer in idle) for producer, watermark in told.items())

    def advance(self, stream: str, watermark: int) -> int:
        """A stream has come this far; returns how far it is then."""
        self._timeline.set_stream(stream, watermark)
        return self._timeline.stream(stream)

    def observe(self, stream: str, stamp: bytes) -> int:
        """Take in a record's stamp or a control message; returns how far the stream is then."""
        control = read_control(stamp)
        if control is None:
            self.tell(stream, *unpack_stamp(stamp))
            self._remember(stream, stamp)
        else:
            self._control(stream, control)
        return self._timeline.stream(stream)

    def _remember(self, stream: str, stamp: bytes) -> None:
        seen = self.seen[stream]
        if len(seen) >= _MANY:
            seen.clear()
        seen.add(stamp)

    def tell(self, stream: str, producer: int, watermark: int, *, idle: bool = False) -> None:
        """One producer of an intermediate stream has come this far, and is idle or not."""
        told = self._producers.setdefault(stream, {})
        before = told.get(producer)
        changed = self._set_idle(stream, producer, idle)
        if changed:  # the same stamp, read again, would tell that it no longer is
            self.seen[stream].clear()
        if changed and not idle and not self.ended(stream):
            # Time has gone on without it: what is kept must tell so, for it does not go back at a restart.
            watermark = max(watermark, self._timeline.stream(stream))
        if before is None or watermark > before or changed:
            told[producer] = watermark if before is None else max(before, watermark)
            # The least can only have grown if this producer was the one that held it back.
            if changed or before is None or before <= self._timeline.stream(stream):
                watermark, rests = self._least(stream)
                self._timeline.set_stream(stream, watermark, idle=rests)

    def _set_idle(self, stream: str, producer: int, idle: bool) -> bool:
        """Note whether a producer is idle; whether that is news."""
        resting = self._idle.get(stream, ())
        if idle == (producer in resting):
            return False
        self._idle[stream] = {*resting, producer} if idle else {*resting} - {producer}
        return True

    def arrived(self, stream: str) -> None:
        """Messages have come in a source."""
        if stream in self._waits:
            self._quiet_since[stream] = self._timeline.clock
            if self._set_idle(stream, 0, idle=False):
                self._timeline.set_stream(stream, START, idle=False)

    def rest(self, active: Collection[str]) -> None:
        """It is later than it was: sources to which nothing has come for long enough are idle, and their time goes on
        with the clock. What waits to be processed is `active`."""
        now = self._timeline.clock
        for stream, patience in self._waits.items():
            since = self._quiet_since.setdefault(stream, now)
            if stream in active:
                self._quiet_since[stream] = now
            elif now - since >= patience and not self.ended(stream):
                passed = now - since - (now - since) % patience
                self._quiet_since[stream] = since + passed
                self._set_idle(stream, 0, idle=True)
                self._timeline.set_stream(stream, self._passed(stream, passed), idle=True)

    def _passed(self, stream: str, duration: int) -> int:
        """The watermark of a source that nothing has come to for a while longer. It is kept as if a message had told
        it, so that a restart finds it."""
        source, high = self.entries[stream].source, self.highs.get(stream, START)
        if source is None or high == START:
            return START
        self.highs[stream] = min(high + duration, LATEST)
        return self.highs[stream] - source.out_of_order

    def _control(self, stream: str, control: Control) -> None:
        self.controls[stream] = self.controls.get(stream, 0) + 1
        self.tell(stream, control.producer, control.watermark, idle=control.idle)
        if control.ended and self._accepts(control):
            ended = self._ended.setdefault(stream, {})
            ended.setdefault(control.producer, self._opened(stream))
            if len(ended) >= control.producers:
                self.end(stream)

    def end_again(self) -> None:
        """End what had ended at the commit that this goes on from: producers in other processes tell it once."""
        for stream, ended in self._ended.items():
            if len(ended) >= self._expected.get(stream, 1):
                self.end(stream)

    def end(self, stream: str) -> None:
        """Nothing more comes in this stream: time runs to its end there, and what waits for time fires."""
        self._timeline.set_stream(stream, END)

    def ended(self, stream: str) -> bool:
        return self._timeline.stream(stream) == END

    def position(self, floor: Callable[[str], int | None], landed: Counts = lambda _: 0) -> Position:
        """What must be remembered to go on from the messages that have landed.

        `floor(stream)` is the watermark that the oldest message under way met. It will be read again after a crash,
        and then must not meet a later time: it would be late for those behind it. `landed(stream)` tells how many of
        `opened(stream)` have landed without a gap: an end that came behind one under way will be read again too.
        """
        highs = {stream: self._high(stream, high, floor(stream)) for stream, high in self.highs.items()}
        told = {stream: _capped(found, floor(stream)) for stream, found in self._producers.items()}
        ended = {stream: _before(found, landed(stream)) for stream, found in self._ended.items()}
        return Position(
            {stream: high for stream, high in highs.items() if high > START},
            told,
            {stream: found for stream, found in ended.items() if found},
            {stream: sorted(found) for stream, found in self._idle.items() if found},
            self._timeline.clock if self._timeline.clocked else START,
            self._met(),
        )

    def _met(self) -> dict[str, int]:
        """How far time had come where inputs meet, if it did not wait for one of them that rested, or had ended."""
        if self._waits or self._idle:
            return self._timeline.met(ended=True)
        # Where all have ended, a later run that has more input goes on from what they had told.
        return self._timeline.met(ended=False) if any(map(self.ended, self.entries)) else {}

    def _high(self, stream: str, high: int, floor: int | None) -> int:
        source = self.entries[stream].source
        if floor is None or source is None:
            return high
        return START if floor == START else min(high, floor + source.out_of_order)

    def watermarks(self) -> dict[str, int]:
        """The watermark of each input."""
        return {stream: self._timeline.stream(stream) for stream in self.entries}

    def watermark(self) -> int:
        """The least watermark of all inputs whose time is somebody's, if there are any."""
        heard = [stream for stream, entry in self.entries.items() if not entry.silent]
        return min(self._timeline.stream(stream) for stream in heard or self.entries)


def _patience(entries: Mapping[str, Entry]) -> dict[str, int]:
    """The sources that may be idle, and after how many ms they are."""
    sources = {stream: entry.source for stream, entry in entries.items()}
    return {stream: op.idle_after for stream, op in sources.items() if op is not None and op.idle_after is not None}


def _before(ended: Mapping[int, int], landed: int) -> list[int]:
    """The producers before whose end all has landed."""
    return sorted(producer for producer, came in ended.items() if came <= landed)


def _capped(told: Mapping[int, int], floor: int | None) -> dict[int, int]:
    return dict(told) if floor is None else {producer: min(mark, floor) for producer, mark in told.items()}
