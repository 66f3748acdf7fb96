"""Which inputs of a task have ended: no more of them comes in this run."""

from collections.abc import Callable, Mapping, Sequence

from .border_watermarks import ControlMessage
from .bounds import END
from .producer_watermarks import ProducerWatermarks
from .watermarks import WatermarkGraph

Accepts = Callable[[ControlMessage], bool]
"""Whether a control message is of this run and assignment. Any other ends no input."""
CountOf = Callable[[str], int]
"""A number of messages of a stream."""


class InputEnds:
    """The ends of a task's inputs. An intermediate stream ends once all of its producers have ended, of which control
    messages tell; any other when the engine says so.

    `opened(stream)` is how many messages of an input came so far, where messages may be in flight. With `catches_up`
    the end of the run is no end of input: nothing fires there that has not come due.
    """

    def __init__(
        self,
        producers: ProducerWatermarks,
        watermarks: WatermarkGraph,
        ended: Mapping[str, Sequence[int]],
        accepts: Accepts,
        opened: CountOf,
        *,
        catches_up: bool,
    ) -> None:
        self.catches_up = catches_up
        self._producers = producers
        self._watermarks = watermarks
        self._accepts = accepts
        self._opened = opened
        # By producer, how many messages came before its end of input.
        self._ended = {stream: dict.fromkeys(numbers, 0) for stream, numbers in ended.items()}
        self._read: set[str] = set()

    def observe(self, stream: str, control: ControlMessage) -> None:
        """Read a control message: a producer may have ended, and with the last one the stream."""
        if control.ended and self._accepts(control):
            ended = self._ended.setdefault(stream, {})
            ended.setdefault(control.producer, self._opened(stream))
            if len(ended) >= control.producers:
                self.end(stream)

    def end_again(self) -> None:
        """End the inputs that had ended at the last commit, since producers in other processes report their end
        once."""
        for stream, ended in self._ended.items():
            if len(ended) >= self._producers.writing(stream):
                self.end(stream)

    def end(self, stream: str) -> None:
        """A stream has ended: no more of it comes in this run. Its watermark is END, so that everything that waits for
        it fires, unless the run only catches up."""
        self._read.add(stream)
        if not self.catches_up:
            self._watermarks.set_stream(stream, END)

    def leave_out(self, stream: str) -> None:
        """Nothing of a stream ever comes to this task, which has no partition of it."""
        self._read.add(stream)
        self._watermarks.leave_out(stream)

    def ended(self, stream: str) -> bool:
        """Whether an input has ended: no more of it comes in this run."""
        return stream in self._read

    def producers(self, landed: CountOf) -> dict[str, list[int]]:
        """By stream, the producers that have ended, for a commit. `landed(stream)` is how many of `opened(stream)` have
        landed without a gap: the end of a producer that came behind a message in flight is read again after a crash."""
        ended = {stream: _before(counts, landed(stream)) for stream, counts in self._ended.items()}
        return {stream: numbers for stream, numbers in ended.items() if numbers}


def _before(ended: Mapping[int, int], landed: int) -> list[int]:
    """The producers whose end came after messages that have all landed."""
    return sorted(producer for producer, came in ended.items() if came <= landed)
