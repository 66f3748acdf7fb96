"""The watermarks of the producers of a task's inputs, and which producers are idle."""

from collections.abc import Mapping, Sequence

from ....planner.task_assignment import StageTasks
from .border_watermarks import ControlMessage
from .border_writers import BorderWriters
from .bounds import START
from .position import Position
from .stage_input import StageInput
from .watermark_node import slowest

_ONE = StageTasks(1)


class ProducerWatermarks:
    """The watermarks of the producers of each input. A source is the producer 0 of its stream.

    `reported[stream]` has the watermark that the messages of each producer have reported, and `highs[stream]` the
    largest timestamp of a source. `idle[stream]` has the watermark of each idle producer. `writers` has the producers
    of each intermediate stream, which are those of the `tasks` that write it unless these change while they run.
    """

    def __init__(self, inputs: Mapping[str, StageInput], position: Position, tasks: Mapping[str, StageTasks]) -> None:
        self._inputs = inputs
        self._tasks = tasks
        self.writers = {
            stream: BorderWriters(
                tasks.get(stream, _ONE), position.writers.get(stream), position.producers.get(stream, ())
            )
            for stream, stage_input in inputs.items()
            if stage_input.clock == "trailer"
        }
        self.highs = {
            stream: high + _shift(inputs[stream], position.out_of_order)
            for stream, high in position.highs.items()
            if stream in inputs
        }
        self.reported = {stream: self._existing(stream, marks) for stream, marks in position.producers.items()}
        self.idle = self._idle_at(position)

    def _existing(self, stream: str, marks: Mapping[int, int]) -> dict[int, int]:
        """The watermarks of the producers that a stream still has: others would hold it back for ever."""
        writers = self.writers.get(stream)
        if writers is None:
            return dict(marks)
        before = {one: writers.inherits.get(one, one) for one in writers}
        return {producer: marks[one] for producer, one in before.items() if one in marks}

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
        if len(marks) < self.writing(stream):
            return START, False
        if not idle:
            return min(marks.values()), False
        return slowest((idle.get(producer, watermark), producer in idle) for producer, watermark in marks.items())

    def writing(self, stream: str) -> int:
        """How many producers a stream has."""
        writers = self.writers.get(stream)
        return self._tasks.get(stream, _ONE).total if writers is None else len(writers)

    def follow(self, stream: str, control: ControlMessage) -> bool:
        """Follow a change of the tasks that write a stream, of which a control message tells: those that are known from
        now on have the watermarks of those that they go on from. Returns whether there was one."""
        writers = self.writers[stream]
        elasticity = control.producers // writers.numbers
        changed = writers.follow(control.producer, elasticity, control.generation, control.parts)
        self._inherit(stream, changed)
        return bool(changed)

    def _inherit(self, stream: str, changed: Mapping[int, Sequence[int]]) -> None:
        marks, idle = self.reported.setdefault(stream, {}), self.idle.setdefault(stream, {})
        news: dict[int, int] = {}
        resting: dict[int, int] = {}
        for producer, before in changed.items():
            known = [one for one in before if one in marks]
            if len(known) == len(before):
                reached = [idle.get(one, marks[one]) for one in before]
                news[producer] = min(reached)
                if all(one in idle for one in before):
                    resting[producer] = min(reached)
        for gone in {one for before in changed.values() for one in before}:
            marks.pop(gone, None)
            idle.pop(gone, None)
        marks.update(news)
        idle.update(resting)

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
        position.writers = {
            stream: stored for stream, writers in self.writers.items() if (stored := writers.stored()) is not None
        }
        position.idle = {stream: sorted(marks) for stream, marks in self.idle.items() if marks}
        position.rested = {stream: _up_to(marks, floors.get(stream)) for stream, marks in self.idle.items() if marks}

    def _high_up_to(self, stream: str, high: int, floor: int | None) -> int:
        source = self._inputs[stream].source
        if floor is None or source is None:
            return high
        return START if floor == START else min(high, floor + source.out_of_order)


def may_be_idle(stage_input: StageInput) -> bool:
    """Whether an input is a source with `idle_after`, or a growth: that is idle until it has its first message."""
    source = stage_input.source
    if stage_input.clock != "source" or source is None:
        return False
    return source.idle_after is not None or stage_input.growth > 0


def _shift(stage_input: StageInput, before: Mapping[str, int]) -> int:
    """By how much `out_of_order` of a source has changed. The watermark of the source stays as it was until messages
    advance it. So it neither goes back nor passes windows that have not fired."""
    now = 0 if stage_input.source is None else stage_input.source.out_of_order
    return now - before.get(stage_input.stream, now)


def _up_to(marks: Mapping[int, int], floor: int | None) -> dict[int, int]:
    return dict(marks) if floor is None else {producer: min(mark, floor) for producer, mark in marks.items()}
