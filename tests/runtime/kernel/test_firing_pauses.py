"""Where a firing pauses: for room in the pools of calls, and for a commit."""

from fluvial.runtime.kernel.firing_pauses import PIECE, FiringPauses
from fluvial.runtime.kernel.output_buffer import HAND_OVER_COUNT, OutputBuffer


class Engine:
    """An engine that takes outputs, and may be full; and calls with some room."""

    def __init__(self, *, asynchronous: bool = False) -> None:
        self.room, self.full = 1, False
        self.taken: list[int] = []
        self.outputs = OutputBuffer([], lambda _, outputs: self.taken.append(len(outputs)))
        self.pauses = FiringPauses(self.outputs, (lambda: self.room) if asynchronous else None, lambda: self.full)

    def emit(self, count: int) -> int:
        """Emit so often; returns how often the firing was to pause."""
        paused = 0
        for _ in range(count):
            self.outputs.of("out").append(b"")
            paused += self.pauses()
        return paused


def test_a_firing_that_nobody_waits_for_hands_over_its_outputs_and_goes_on() -> None:
    engine = Engine()
    assert engine.emit(2 * PIECE + 1) == 0
    assert engine.taken == [HAND_OVER_COUNT, HAND_OVER_COUNT]
    assert engine.pauses.has_room


def test_a_firing_pauses_after_each_piece_while_the_engine_is_full() -> None:
    engine = Engine()
    engine.full = True
    assert engine.emit(3 * PIECE) == 3
    assert not engine.pauses.has_room
    engine.full = False
    assert engine.pauses.has_room


def test_a_firing_pauses_behind_the_call_that_takes_the_last_room() -> None:
    engine = Engine(asynchronous=True)
    assert (engine.emit(5), engine.pauses.has_room) == (0, True)
    engine.room = 0
    assert (engine.emit(1), engine.pauses.has_room) == (1, False)
