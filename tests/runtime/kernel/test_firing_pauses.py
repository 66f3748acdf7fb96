"""Where a firing pauses: for room in the pools of calls, and for a commit."""

from fluvial.runtime.kernel.firing_pauses import FIRST_PIECE, PIECE, PIECE_BYTES, TURN, FiringPauses
from fluvial.runtime.kernel.output_buffer import OutputBuffer


class Engine:
    """An engine that takes outputs, and may be full; and calls with some room."""

    def __init__(self, *, asynchronous: bool = False, turns: bool = False) -> None:
        self.room, self.full = 1, False
        self.taken: list[int] = []
        self.outputs = OutputBuffer([], lambda _, outputs: self.taken.append(len(outputs)))
        room = (lambda: self.room) if asynchronous else None
        self.pauses = FiringPauses(self.outputs, room, lambda: self.full, turns=turns)

    def emit(self, count: int, size: int = 0) -> int:
        """Emit records of so many bytes; returns how often the firing was to pause."""
        paused, value = 0, bytes(size)
        for _ in range(count):
            self.outputs.of("out").append((None, value, 0, ()))
            paused += self.pauses()
        return paused


def test_a_firing_that_nobody_waits_for_hands_over_its_outputs_and_goes_on() -> None:
    engine = Engine()
    assert engine.emit(5 * PIECE) == 0
    assert engine.taken[:3] == [FIRST_PIECE, 2 * FIRST_PIECE, 4 * FIRST_PIECE]
    assert (engine.taken[-1], max(engine.taken)) == (PIECE, PIECE)
    assert engine.pauses.has_room


def test_pieces_of_large_outputs_are_smaller() -> None:
    engine = Engine()
    engine.emit(3 * PIECE)
    engine.taken.clear()
    engine.emit(2 * PIECE, PIECE_BYTES // 100)
    assert engine.taken[-1] == 100
    engine.emit(300, 2 * PIECE_BYTES)
    assert engine.taken[-1] == 1
    engine.emit(5 * PIECE)
    assert engine.taken[-1] == PIECE


def test_a_firing_pauses_after_each_piece_while_the_engine_is_full() -> None:
    engine = Engine()
    engine.full = True
    assert engine.emit(7 * FIRST_PIECE) == 3
    assert not engine.pauses.has_room
    engine.full = False
    assert engine.pauses.has_room


def test_a_firing_pauses_behind_the_call_that_takes_the_last_room() -> None:
    engine = Engine(asynchronous=True)
    assert (engine.emit(5), engine.pauses.has_room) == (0, True)
    engine.room = 0
    assert (engine.emit(1), engine.pauses.has_room) == (1, False)


def test_a_firing_pauses_now_and_then_for_an_engine_that_has_other_work() -> None:
    engine = Engine(turns=True)
    assert 2 <= engine.emit(3 * TURN) <= 3
    assert engine.pauses.has_room
