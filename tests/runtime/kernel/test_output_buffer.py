"""Outputs of a task until its engine takes them."""

from fluvial.runtime.kernel.output_buffer import DEAD_LETTERS, OutputBuffer


def test_what_is_drained_is_given_once_and_lists_stay_the_same() -> None:
    letters = [b"bad"]
    buffer = OutputBuffer(letters)
    first = buffer.of("a")
    first.append(1)
    assert list(buffer.drain()) == [("a", [1]), (DEAD_LETTERS, [b"bad"])]
    assert (list(buffer.drain()), letters) == ([], [])
    first.append(2)
    assert buffer.of("a") is first
    assert list(buffer.drain()) == [("a", [2])]


def test_outputs_are_handed_over_once_there_are_many() -> None:
    handed: list[tuple[str, list[int]]] = []
    buffer = OutputBuffer([], lambda operator, outputs: handed.append((operator, outputs)), many=3)
    buffer.of("a").append(1)
    buffer.of("b").append(2)
    buffer.hand_over_if_many()
    assert (handed, len(buffer)) == ([], 2)
    buffer.of("a").append(3)
    buffer.hand_over_if_many()
    assert (handed, len(buffer)) == ([("a", [1, 3]), ("b", [2])], 0)


def test_outputs_stay_where_nobody_takes_them() -> None:
    buffer = OutputBuffer([], many=1)
    buffer.of("a").append(1)
    buffer.hand_over_if_many()
    assert len(buffer) == 1


def test_dead_letters_are_handed_over_with_the_rest() -> None:
    handed: list[tuple[str, list[int]]] = []
    letters = [1, 2]
    buffer = OutputBuffer(letters, lambda operator, outputs: handed.append((operator, outputs)), many=2)
    buffer.hand_over_if_many()
    assert (handed, letters) == ([(DEAD_LETTERS, [1, 2])], [])
