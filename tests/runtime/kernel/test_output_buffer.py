"""Outputs of a task until its engine takes them."""

import pytest

from fluvial.runtime.kernel import output_buffer
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


def test_outputs_are_handed_over_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_buffer, "HAND_OVER_COUNT", 3)
    handed: list[tuple[str, list[int]]] = []
    buffer = OutputBuffer([], lambda operator, outputs: handed.append((operator, outputs)))
    buffer.of("a").append(1)
    buffer.of("b").append(2)
    buffer.hand_over_if_many()
    assert (handed, len(buffer)) == ([], 2)
    buffer.of("a").append(3)
    buffer.hand_over_if_many()
    assert (handed, len(buffer)) == ([("a", [1, 3]), ("b", [2])], 0)


def test_outputs_stay_where_nobody_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_buffer, "HAND_OVER_COUNT", 1)
    buffer = OutputBuffer([])
    buffer.of("a").append(1)
    buffer.hand_over_if_many()
    assert len(buffer) == 1
