"""The progress of a task's inputs: it reads trailers and control messages, and sets the watermarks."""

from collections.abc import Callable, Iterable, Mapping

from ....planner.task_assignment import StageTasks
from .border_watermarks import ControlMessage, read_control, unpack_trailer
from .bounds import LATEST, START
from .input_ends import Accepts, CountOf, InputEnds
from .operator_watermarks import reached
from .position import Position
from .producer_watermarks import ProducerWatermarks
from .stage_input import StageInput
from .watermarks import WatermarkGraph

WatermarkReport = tuple[str, int, int, bool]
"""The stream, the number of the producer, its watermark, and whether it is idle."""
_MANY = 256
"""Trailers that are remembered: a few of each producer."""


class InputProgress:
    """The progress of a task's inputs, which advances its watermarks.

    `highs` has the largest timestamp of each source. `controls` counts the control messages of each input. `seen` holds
    trailers that were read before: producers repeat their trailers, and as long as no producer becomes idle, a repeated
    trailer changes nothing. `ends` has the inputs that have ended; `accepts`, `opened` and `catches_up` are for it.
    """

    def __init__(
        self,
        inputs: Mapping[str, StageInput],
        watermarks: WatermarkGraph,
        position: Position,
        producers: Mapping[str, StageTasks],
        accepts: Accepts,
        opened: CountOf = lambda _: 0,
        *,
        catches_up: bool = False,
    ) -> None:
        self.inputs = inputs
        # The position of an input that the stage no longer has is kept, for the input may come back.
        self._gone = Position(
            highs={stream: high for stream, high in position.highs.items() if stream not in inputs},
            out_of_order={stream: lag for stream, lag in position.out_of_order.items() if stream not in inputs},
            reached=position.reached,
        )
        self.controls: dict[str, int] = {}
        self.seen: dict[str, set[bytes]] = {stream: set() for stream in inputs}
        self._watermarks, self._of_nodes = watermarks, watermarks.of_nodes
        self._producers = ProducerWatermarks(inputs, position, producers)
        self.highs = self._producers.highs
        self.ends = InputEnds(self._producers, watermarks, position.ended, accepts, opened, catches_up=catches_up)
        known, idle = self._producers.known(), self._producers.idle_streams()
        watermarks.restore(known, idle, position.clock, position.met, position.reached)

    def advance(self, stream: str, watermark: int) -> int:
        """Report a watermark of a stream, in ms since epoch. Returns the one that holds then, maybe a later one."""
        self._watermarks.set_stream(stream, watermark)
        return self._of_nodes.stream(stream)

    def observe(self, stream: str, trailer: bytes) -> int:
        """Read the trailer of a record, or a control message; returns the watermark of the stream."""
        control = read_control(trailer)
        if control is None:
            producer, watermark = unpack_trailer(trailer)
            if producer in self._producers.writers[stream]:
                self.report(stream, producer, watermark)
            self._remember(stream, trailer)
        else:
            self._control(stream, control)
        return self._of_nodes.stream(stream)

    def _remember(self, stream: str, trailer: bytes) -> None:
        seen = self.seen[stream]
        if len(seen) >= _MANY:
            seen.clear()
        seen.add(trailer)

    def report(self, stream: str, producer: int, watermark: int, *, idle: bool = False) -> None:
        """Report the watermark of one producer of an intermediate stream, and whether it is idle. The watermark of an
        idle producer counts until the producer is no longer idle."""
        producers = self._producers
        marks = producers.reported.setdefault(stream, {})
        if idle or producers.idle.get(stream):
            self._record(stream, producer, watermark, idle=idle)
            watermark, rests = producers.least(stream)
            self._watermarks.set_stream(stream, watermark, idle=rests)
            return
        before = marks.get(producer)
        if before is None or watermark > before:
            marks[producer] = watermark
            # The least watermark can only have grown if this producer was the one that held it back.
            if before is None or before <= self._of_nodes.stream(stream):
                self._watermarks.set_stream(stream, producers.least(stream)[0], idle=False)

    def report_all(self, reports: Iterable[WatermarkReport]) -> None:
        """Report the watermarks of several producers at once. Their order does not matter."""
        streams: dict[str, None] = {}
        for stream, producer, watermark, idle in reports:
            streams[stream] = None
            self._record(stream, producer, watermark, idle=idle)
        self._watermarks.set_streams({stream: self._producers.least(stream) for stream in streams})

    def set_all(self, streams: Mapping[str, tuple[int, bool]]) -> None:
        """Set the watermark of several streams at once, and whether each is idle: for an engine that knows those of
        whole streams, which then have one producer. A watermark that is earlier than before is set where an input is
        no longer idle, and nowhere else."""
        for stream, (watermark, idle) in streams.items():
            self._producers.reported[stream] = {0: watermark}
            self._producers.idle[stream] = {0: watermark} if idle else {}
        self._watermarks.set_streams(streams)

    def _record(self, stream: str, producer: int, watermark: int, *, idle: bool) -> None:
        if self._producers.record(stream, producer, watermark, idle=idle):
            # The same trailer, when it is read again, means that the producer is no longer idle.
            self.seen[stream].clear()

    def set_idle(self, stream: str, watermark: int | None) -> None:
        """A source is idle, and has this watermark; None: it is not idle. If it was, it has the watermark of its
        messages again."""
        changed = self._producers.set_idle(stream, 0, watermark)
        if watermark is not None:
            self._watermarks.set_stream(stream, watermark, idle=True)
        elif changed:
            self._watermarks.set_stream(stream, self._producers.reached(stream, 0), idle=False)

    def wake(self, stream: str) -> None:
        """A source has messages, be they processed yet or not: it is not idle."""
        if self._producers.idle.get(stream):
            self.set_idle(stream, None)

    def idle_watermark(self, stream: str, producer: int, duration: int) -> int:
        """The watermark of an idle source or producer after `duration` more."""
        watermark = self._producers.reached(stream, producer)
        return START if watermark == START else min(watermark + duration, LATEST)

    def _control(self, stream: str, control: ControlMessage) -> None:
        self.controls[stream] = self.controls.get(stream, 0) + 1
        # The last message of a task that is split says how far all of its parts are.
        changed = not control.parts and self._producers.follow(stream, control)
        if control.producer in self._producers.writers[stream]:
            self.report(stream, control.producer, control.watermark, idle=control.idle)
        if changed or (control.parts and self._producers.follow(stream, control)):
            # The same trailer, when it is read again, is of another task.
            self.seen[stream].clear()
            watermark, idle = self._producers.least(stream)
            self._watermarks.set_stream(stream, watermark, idle=idle)
        self.ends.observe(stream, control)

    def position(self, floor: Callable[[str], int | None], landed: CountOf = lambda _: 0) -> Position:
        """The position after the messages that have landed.

        `floor(stream)` is the watermark of the oldest message in flight. After a crash that message is read again, and
        must meet no later watermark, or it might be late. `landed(stream)` is how many of its messages have landed
        without a gap.
        """
        sources = {stream: one.source for stream, one in self.inputs.items()}
        lags = {stream: source.out_of_order for stream, source in sources.items() if source is not None}
        position = Position(
            highs=dict(self._gone.highs),
            ended=self.ends.producers(landed),
            clock=self._watermarks.clock if self._watermarks.clock_users else START,
            out_of_order=self._gone.out_of_order | lags,
            reached=self._gone.reached | reached(self._watermarks),
        )
        self._producers.add_to(position, {stream: floor(stream) for stream in self.inputs})
        return position

    def watermarks(self) -> dict[str, int]:
        """The watermark of each input stream, in ms since epoch: START before any came, END after its end."""
        return {stream: self._of_nodes.stream(stream) for stream in self.inputs}

    def watermark(self) -> int:
        """The least watermark of the inputs that are not `silent`; of all inputs if all are."""
        heard = [stream for stream, one in self.inputs.items() if not one.silent]
        return min(self._of_nodes.stream(stream) for stream in heard or self.inputs)
