"""How far the inputs of a task have come: by timestamps, by the trailers and control messages of producers, and, for an
input that is idle, by the clock."""

from collections.abc import Callable, Collection, Iterable, Mapping

from .border_watermarks import ControlMessage, read_control, unpack_trailer
from .bounds import END, LATEST, START
from .idle_sources import newly_idle
from .position import Position
from .stage_input import StageInput
from .watermark_node import slowest
from .watermarks import WatermarkGraph

Accepts = Callable[[ControlMessage], bool]
"""Whether a control message is of this run and assignment. Any other ends no input."""
Report = tuple[str, int, int, bool]
"""The stream, the number of the producer, its watermark, and whether it is idle."""
Counts = Callable[[str], int]
"""A number of messages of a stream."""
_ANY = 1 << 32
"""More than the number of any producer."""
_MANY = 256
"""Trailers that are remembered: a few of each producer."""


class InputProgress:
    """The progress of a task's inputs, which advances its watermarks. `producers` is how many tasks write each
    intermediate stream. `controls` counts the control messages of each input. `opened` returns how many messages of an
    input came so far, where messages may be in flight. `seen` holds trailers that were read before: as long as no
    producer becomes idle, they change nothing. Producers repeat their trailers."""

    def __init__(
        self,
        inputs: Mapping[str, StageInput],
        watermarks: WatermarkGraph,
        position: Position,
        producers: Mapping[str, int],
        accepts: Accepts,
        opened: Counts = lambda _: 0,
    ) -> None:
        self.inputs = inputs
        # The position of an input that the stage no longer has is kept, for the input may come back.
        self._gone = Position(
            highs={stream: high for stream, high in position.highs.items() if stream not in inputs},
            out_of_order={stream: lag for stream, lag in position.out_of_order.items() if stream not in inputs},
            reached=position.reached,
        )
        self.highs = {
            stream: high + self._shift(inputs[stream], position.out_of_order)
            for stream, high in position.highs.items()
            if stream in inputs
        }
        self.controls: dict[str, int] = {}
        self.seen: dict[str, set[bytes]] = {stream: set() for stream in inputs}
        self._watermarks = watermarks
        self._expected = producers
        # Producers that no longer exist, since there are fewer tasks now, would hold time back for ever.
        self._numbers = {
            stream: producers.get(stream, _ANY) if entry.clock == "trailer" else _ANY
            for stream, entry in inputs.items()
        }
        self._producers = {stream: self._present(stream, marks) for stream, marks in position.producers.items()}
        self._accepts = accepts
        self._opened = opened
        # By producer, how many messages came before its end of input.
        self._ended = {stream: dict.fromkeys(ended, 0) for stream, ended in position.ended.items()}
        self._waits = _patience(inputs)
        self._idle = self._idle_at(position)
        self._quiet_since: dict[str, int] = {}
        watermarks.restore(self._known(), self._idle_streams(), position.clock, position.met, position.reached)

    @staticmethod
    def _shift(entry: StageInput, before: Mapping[str, int]) -> int:
        """By how much `out_of_order` of a source has changed. The watermark of the source stays as it was until
        messages advance it. So time neither goes back nor passes windows that have not fired."""
        now = 0 if entry.source is None else entry.source.out_of_order
        return now - before.get(entry.stream, now)

    def _idle_at(self, position: Position) -> dict[str, dict[int, int]]:
        """By stream, the watermark of each producer that was idle; a source is producer 0. An older version kept these
        watermarks as if messages had reported them. A source that no longer has `idle_after` is not idle."""
        known = {stream for stream, entry in self.inputs.items() if entry.clock != "source" or stream in self._waits}
        idle = {stream: self._present(stream, rested) for stream, rested in position.rested.items() if stream in known}
        for stream, producers in position.idle.items():
            for producer in self._present(stream, dict.fromkeys(producers, 0)) if stream in known else ():
                marks = idle.setdefault(stream, {})
                marks.setdefault(producer, self._reported(stream, producer))
        return idle

    def _present(self, stream: str, marks: Mapping[int, int]) -> dict[int, int]:
        """The watermarks of the producers that a stream still has."""
        number = self._numbers.get(stream, _ANY)
        return {producer: mark for producer, mark in marks.items() if producer < number}

    def _idle_streams(self) -> list[str]:
        """The inputs that were idle at the last commit."""
        idle = [stream for stream in self._producers if self._least(stream)[1]]
        return [*idle, *(stream for stream in self._waits if self._idle.get(stream))]

    def _known(self) -> dict[str, int]:
        known = {}
        for stream, entry in self.inputs.items():
            if entry.source is not None and stream in self.highs:
                known[stream] = self._reached(stream, 0)
            elif stream in self._producers:
                known[stream] = self._least(stream)[0]
        return known

    def _least(self, stream: str) -> tuple[int, bool]:
        """The watermark of an intermediate stream, and whether it is idle: see `slowest`. Before all producers have
        told theirs, it has none."""
        marks, idle = self._producers[stream], self._idle.get(stream)
        if len(marks) < self._expected.get(stream, 1):
            return START, False
        if not idle:
            return min(marks.values()), False
        return slowest((idle.get(producer, watermark), producer in idle) for producer, watermark in marks.items())

    def _reached(self, stream: str, producer: int) -> int:
        """The watermark of one producer, or of a source: of an idle one, how far its time has gone on."""
        idle = self._idle.get(stream, {}).get(producer)
        return self._reported(stream, producer) if idle is None else idle

    def _reported(self, stream: str, producer: int) -> int:
        """The watermark that its messages have given one producer, or a source."""
        source = self.inputs[stream].source
        if source is not None and stream in self.highs:
            return self.highs[stream] - source.out_of_order
        return self._producers.get(stream, {}).get(producer, START)

    def advance(self, stream: str, watermark: int) -> int:
        """Advance the watermark of a stream; returns the watermark that it has then."""
        self._watermarks.set_stream(stream, watermark)
        return self._watermarks.stream(stream)

    def observe(self, stream: str, trailer: bytes) -> int:
        """Read the trailer of a record, or a control message; returns the watermark of the stream."""
        control = read_control(trailer)
        if control is None:
            producer, watermark = unpack_trailer(trailer)
            if producer < self._numbers[stream]:
                self.report(stream, producer, watermark)
            self._remember(stream, trailer)
        else:
            self._control(stream, control)
        return self._watermarks.stream(stream)

    def _remember(self, stream: str, trailer: bytes) -> None:
        seen = self.seen[stream]
        if len(seen) >= _MANY:
            seen.clear()
        seen.add(trailer)

    def report(self, stream: str, producer: int, watermark: int, *, idle: bool = False) -> None:
        """Report the watermark of one producer of an intermediate stream, and whether it is idle. A watermark that it
        reports while it is idle counts until it is no longer idle."""
        marks = self._producers.setdefault(stream, {})
        if idle or self._idle.get(stream):
            self._report_among_idle(stream, producer, watermark, idle=idle)
            return
        before = marks.get(producer)
        if before is None or watermark > before:
            marks[producer] = watermark
            # The least can only have grown if this producer was the one that held it back.
            if before is None or before <= self._watermarks.stream(stream):
                self._watermarks.set_stream(stream, self._least(stream)[0], idle=False)

    def report_all(self, reports: Iterable[Report]) -> None:
        """Report the watermarks of several producers at once. Their order means nothing."""
        streams: dict[str, None] = {}
        for stream, producer, watermark, idle in reports:
            streams[stream] = None
            self._record(stream, producer, watermark, idle=idle)
        self._watermarks.set_streams({stream: self._least(stream) for stream in streams})

    def _report_among_idle(self, stream: str, producer: int, watermark: int, *, idle: bool) -> None:
        self._record(stream, producer, watermark, idle=idle)
        watermark, rests = self._least(stream)
        self._watermarks.set_stream(stream, watermark, idle=rests)

    def _record(self, stream: str, producer: int, watermark: int, *, idle: bool) -> None:
        """Record the watermark of a producer, and whether it is idle."""
        marks = self._producers.setdefault(stream, {})
        if (idle or self._idle.get(stream)) and self._set_idle(stream, producer, watermark if idle else None):
            # The same trailer, when it is read again, means that the producer is no longer idle.
            self.seen[stream].clear()
        marks[producer] = max(marks.get(producer, START), START if idle else watermark)

    def _set_idle(self, stream: str, producer: int, watermark: int | None) -> bool:
        """Record the watermark of an idle producer; None for one that is not idle. Returns whether the producer has
        become idle, or has ceased to be."""
        resting = self._idle.setdefault(stream, {})
        was = producer in resting
        if watermark is None:
            resting.pop(producer, None)
        else:
            resting[producer] = max(watermark, self._reached(stream, producer))
        return was != (producer in resting)

    def arrived(self, stream: str) -> None:
        """Messages of a source have come. A source that was idle has the watermark of its messages again."""
        if stream in self._waits:
            self._quiet_since[stream] = self._watermarks.clock
            if self._set_idle(stream, 0, None):
                self._watermarks.set_stream(stream, self._reached(stream, 0), idle=False)

    def mark_idle(self, active: Collection[str]) -> None:
        """Mark the sources as idle to which no message has come for their `idle_after`, and advance their watermarks
        with the clock. Sources with messages that wait to be processed are `active`."""
        waits = {stream: patience for stream, patience in self._waits.items() if not self.ended(stream)}
        for stream, passed in newly_idle(self._quiet_since, waits, active, self._watermarks.clock):
            watermark = self.idle_watermark(stream, 0, passed)
            self._set_idle(stream, 0, watermark)
            self._watermarks.set_stream(stream, watermark, idle=True)

    def next_idle(self) -> int:
        """The next time of the clock at which a source becomes idle, or its watermark advances; END if there is
        none."""
        waits = self._waits.items()
        dues = (self._quiet_since[stream] + wait for stream, wait in waits if stream in self._quiet_since)
        return min(dues, default=END)

    def idle_watermark(self, stream: str, producer: int, duration: int) -> int:
        """The watermark of an idle source or producer after `duration` more."""
        reached = self._reached(stream, producer)
        return START if reached == START else min(reached + duration, LATEST)

    def _control(self, stream: str, control: ControlMessage) -> None:
        self.controls[stream] = self.controls.get(stream, 0) + 1
        if control.producer < self._numbers[stream]:
            self.report(stream, control.producer, control.watermark, idle=control.idle)
        if control.ended and self._accepts(control):
            ended = self._ended.setdefault(stream, {})
            ended.setdefault(control.producer, self._opened(stream))
            if len(ended) >= control.producers:
                self.end(stream)

    def end_again(self) -> None:
        """End the inputs that had ended at the last commit, since producers in other processes report their end
        once."""
        for stream, ended in self._ended.items():
            if len(ended) >= self._expected.get(stream, 1):
                self.end(stream)

    def end(self, stream: str) -> None:
        """A stream has ended: its watermark is END, so that all that waits for time fires."""
        self._watermarks.set_stream(stream, END)

    def ended(self, stream: str) -> bool:
        return self._watermarks.stream(stream) == END

    def position(self, floor: Callable[[str], int | None], landed: Counts = lambda _: 0) -> Position:
        """The position after the messages that have landed.

        `floor(stream)` is the watermark of the oldest message in flight. After a crash that message is read again, and
        must meet no later watermark, or it might be late. `landed(stream)` is how many of `opened(stream)` have landed
        without a gap: the end of a producer that came behind a message in flight is read again too.
        """
        gone, reached = self._gone, self._watermarks.reached()
        highs = {stream: self._high(stream, high, floor(stream)) for stream, high in self.highs.items()}
        producers = {stream: _capped(marks, floor(stream)) for stream, marks in self._producers.items()}
        ended = {stream: _before(counts, landed(stream)) for stream, counts in self._ended.items()}
        return Position(
            {**gone.highs, **{stream: high for stream, high in highs.items() if high > START}},
            producers,
            {stream: numbers for stream, numbers in ended.items() if numbers},
            {stream: sorted(marks) for stream, marks in self._idle.items() if marks},
            self._watermarks.clock if self._watermarks.clocked else START,
            rested={stream: _capped(marks, floor(stream)) for stream, marks in self._idle.items() if marks},
            out_of_order=gone.out_of_order
            | {stream: entry.source.out_of_order for stream, entry in self.inputs.items() if entry.source is not None},
            reached=gone.reached | reached,
        )

    def _high(self, stream: str, high: int, floor: int | None) -> int:
        source = self.inputs[stream].source
        if floor is None or source is None:
            return high
        return START if floor == START else min(high, floor + source.out_of_order)

    def watermarks(self) -> dict[str, int]:
        """The watermark of each input."""
        return {stream: self._watermarks.stream(stream) for stream in self.inputs}

    def watermark(self) -> int:
        """The least watermark of the inputs that are not `silent`; of all inputs if all are."""
        heard = [stream for stream, entry in self.inputs.items() if not entry.silent]
        return min(self._watermarks.stream(stream) for stream in heard or self.inputs)


def _patience(inputs: Mapping[str, StageInput]) -> dict[str, int]:
    """The sources that may be idle, and after how many ms without messages they are."""
    sources = {stream: entry.source for stream, entry in inputs.items() if entry.clock == "source"}
    return {stream: op.idle_after for stream, op in sources.items() if op is not None and op.idle_after is not None}


def _before(ended: Mapping[int, int], landed: int) -> list[int]:
    """The producers before whose end all messages have landed."""
    return sorted(producer for producer, came in ended.items() if came <= landed)


def _capped(marks: Mapping[int, int], floor: int | None) -> dict[int, int]:
    return dict(marks) if floor is None else {producer: min(mark, floor) for producer, mark in marks.items()}
