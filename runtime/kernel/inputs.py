"""How far the inputs of a task have come: from timestamps, from the stamps of producers, and from control messages."""

from collections.abc import Callable, Mapping

from .program import Position
from .shape import Entry
from .stamps import Control, read_control, unpack_stamp
from .timeline import Timeline
from .times import END, START

Accepts = Callable[[Control], bool]
"""Whether a control message is of this run and assignment: others end nothing."""
Counts = Callable[[str], int]
"""A number of messages of a stream."""


class Inputs:
    """The inputs of one task, and the timeline that they move. `producers` is how many write each intermediate
    stream; `controls` counts the control messages that came in each. `opened` tells how many messages of a stream came
    so far that may still be under way, where any may."""

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
        self._timeline = timeline
        self._producers = position.producers
        self._expected = producers
        self._accepts = accepts
        self._opened = opened
        # By producer, how many messages came before it told the end.
        self._ended = {stream: dict.fromkeys(ended, 0) for stream, ended in position.ended.items()}
        timeline.restore(dict(self._known()))

    def _known(self) -> dict[str, int]:
        found = {}
        for stream, entry in self.entries.items():
            if entry.source is not None and stream in self.highs:
                found[stream] = self.highs[stream] - entry.source.out_of_order
            elif stream in self._producers:
                found[stream] = self._least(stream)
        return found

    def _least(self, stream: str) -> int:
        """The watermark of an intermediate stream: the least of its producers, once all have told theirs."""
        told = self._producers[stream]
        return min(told.values()) if len(told) >= self._expected.get(stream, 1) else START

    def advance(self, stream: str, watermark: int) -> int:
        """A stream has come this far; returns how far it is then."""
        self._timeline.set_stream(stream, watermark)
        return self._timeline.stream(stream)

    def observe(self, stream: str, stamp: bytes) -> int:
        """Take in a record's stamp or a control message; returns how far the stream is then."""
        control = read_control(stamp)
        if control is None:
            self.tell(stream, *unpack_stamp(stamp))
        else:
            self._control(stream, control)
        return self._timeline.stream(stream)

    def tell(self, stream: str, producer: int, watermark: int) -> None:
        """One producer of an intermediate stream has come this far."""
        told = self._producers.setdefault(stream, {})
        before = told.get(producer)
        if before is None or watermark > before:
            told[producer] = watermark
            # The least can only have grown if this producer was the one that held it back.
            if before is None or before <= self._timeline.stream(stream):
                self._timeline.set_stream(stream, self._least(stream))

    def _control(self, stream: str, control: Control) -> None:
        self.controls[stream] = self.controls.get(stream, 0) + 1
        self.tell(stream, control.producer, control.watermark)
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
        )

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


def _before(ended: Mapping[int, int], landed: int) -> list[int]:
    """The producers before whose end all has landed."""
    return sorted(producer for producer, came in ended.items() if came <= landed)


def _capped(told: Mapping[int, int], floor: int | None) -> dict[int, int]:
    return dict(told) if floor is None else {producer: min(mark, floor) for producer, mark in told.items()}
