"""The watermarks of the producers of a task's inputs, and which producers are idle."""

from collections.abc import Mapping

from .bounds import START
from .position import Position
from .stage_input import StageInput
from .watermark_node import slowest

_ANY = 1 << 32
"""More than the number of any producer."""


class ProducerWatermarks:
    """The watermarks of the producers of each input. A source is the producer 0 of its stream.

    `reported[stream]` has the watermark that the messages of each producer have reported, and `highs[stream]` the
    largest timestamp of a source. `idle[stream]` has the watermark of each idle producer. `expected` is how many tasks
    write each intermediate stream.
    """

    def __init__(self, inputs: Mapping[str, StageInput], position: Position, expected: Mapping[str, int]) -> None:
        self._inputs = inputs
        self._expected = expected
        # Producers that no longer exist, since there are fewer tasks now, would hold the watermark back for ever.
        self.numbers = {
            stream: expected.get(stream, _ANY) if stage_input.clock == "trailer" else _ANY
            for stream, stage_input in inputs.items()
        }
        self.highs = {
            stream: high + _shift(inputs[stream], position.out_of_order)
            for stream, high in position.highs.items()
            if stream in inputs
        }
        self.reported = {stream: self._existing(stream, marks) for stream, marks in position.producers.items()}
        self.idle = self._idle_at(position)

    def _existing(self, stream: str, marks: Mapping[int, int]) -> dict[int, int]:
        """The watermarks of the producers that a stream still has."""
        number = self.numbers.get(stream, _ANY)
        return {producer: mark for producer, mark in marks.items() if producer < number}

    def _idle_at(self, position: Position) -> dict[str, dict[int, int]]:
        """By stream, the watermark of each producer that was idle. Earlier versions stored these watermarks as if
        messages had reported them. A source that no longer has `idle_after` is not idle."""
        known = {stream for stream, one in self._inputs.items() if one.clock != "source" or may_be_idle(one)}
        idle = {stream: self._existing(stream, marks) for stream, marks in position.rested.items() if stream in known}
        for stream, producers in position.idle.items():
            for producer in self._existing(stream, dict.fromkeys(producers, 0)) if stream in known else ():
                marks = idle.setdefault(stream, {})
                marks.setdefault(producer, self._reported_by(stream, producer))
        return idle

    def idle_streams(self) -> list[str]:
        """Inputs that hold no watermark back: idle sources, and intermediate streams whose producers are all idle."""
        idle = [stream for stream in self.reported if self.least(stream)[1]]
        return [*idle, *(one.stream for one in self._inputs.values() if may_be_idle(one) and self.idle.get(one.stream))]

    def known(self) -> dict[str, int]:
        """By stream, in ms since epoch. A source without records so far is not there, nor a stream that no producer has
        reported on."""
        known = {}
        for stream, stage_input in self._inputs.items():
            if stage_input.source is not None and stream in self.highs:
                known[stream] = self.reached(stream, 0)
            elif stream in self.reported:
                known[stream] = self.least(stream)[0]
        return known

    def least(self, stream: str) -> tuple[int, bool]:
        """The watermark of an intermediate stream, and whether it is idle: see `slowest`. It has none before all
        producers have reported theirs."""
        marks, idle = self.reported[stream], self.idle.get(stream)
        if len(marks) < self._expected.get(stream, 1):
            return START, False
        if not idle:
            return min(marks.values()), False
        return slowest((idle.get(producer, watermark), producer in idle) for producer, watermark in marks.items())

    def reached(self, stream: str, producer: int) -> int:
        """The watermark of a producer. That of an idle producer has advanced with the clock."""
        idle = self.idle.get(stream, {}).get(producer)
        return self._reported_by(stream, producer) if idle is None else idle

    def _reported_by(self, stream: str, producer: int) -> int:
        """The watermark that the messages of a producer have reported."""
        source = self._inputs[stream].source
        if source is not None and stream in self.highs:
            return self.highs[stream] - source.out_of_order
        return self.reported.get(stream, {}).get(producer, START)

    def record(self, stream: str, producer: int, watermark: int, *, idle: bool) -> bool:
        """Record a report of a producer. Returns whether the producer has become idle, or has ceased to be."""
        marks = self.reported.setdefault(stream, {})
        changed = (idle or bool(self.idle.get(stream))) and self.set_idle(stream, producer, watermark if idle else None)
        marks[producer] = max(marks.get(producer, START), START if idle else watermark)
        return changed

    def set_idle(self, stream: str, producer: int, watermark: int | None) -> bool:
        """Record the watermark of an idle producer; None for one that is not idle. Returns whether the producer has
        become idle, or has ceased to be."""
        idle = self.idle.setdefault(stream, {})
        was_idle = producer in idle
        if watermark is None:
            idle.pop(producer, None)
        else:
            idle[producer] = max(watermark, self.reached(stream, producer))
        return was_idle != (producer in idle)

    def add_to(self, position: Position, floors: Mapping[str, int | None]) -> None:
        """Add the watermarks to a position. `floors` has the watermark of the oldest message in flight of each input:
        no watermark of the position is greater."""
        highs = {stream: self._high_up_to(stream, high, floors.get(stream)) for stream, high in self.highs.items()}
        position.highs |= {stream: high for stream, high in highs.items() if high > START}
        position.producers = {stream: _up_to(marks, floors.get(stream)) for stream, marks in self.reported.items()}
        position.idle = {stream: sorted(marks) for stream, marks in self.idle.items() if marks}
        position.rested = {stream: _up_to(marks, floors.get(stream)) for stream, marks in self.idle.items() if marks}

    def _high_up_to(self, stream: str, high: int, floor: int | None) -> int:
        source = self._inputs[stream].source
        if floor is None or source is None:
            return high
        return START if floor == START else min(high, floor + source.out_of_order)


def may_be_idle(stage_input: StageInput) -> bool:
    """Whether an input is a source with `idle_after`."""
    source = stage_input.source
    return stage_input.clock == "source" and source is not None and source.idle_after is not None


def _shift(stage_input: StageInput, before: Mapping[str, int]) -> int:
    """By how much `out_of_order` of a source has changed. The watermark of the source stays as it was until messages
    advance it. So it neither goes back nor passes windows that have not fired."""
    now = 0 if stage_input.source is None else stage_input.source.out_of_order
    return now - before.get(stage_input.stream, now)


def _up_to(marks: Mapping[int, int], floor: int | None) -> dict[int, int]:
    return dict(marks) if floor is None else {producer: min(mark, floor) for producer, mark in marks.items()}
