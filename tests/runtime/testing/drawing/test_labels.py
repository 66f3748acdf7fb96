"""Short texts for keys, values and messages."""

from typing import Any

import pytest

from fluvial.dsl import Message, Pane, Window
from fluvial.runtime.testing.drawing.labels import fitting, key_label, tooltip_text, value_label


@pytest.mark.parametrize(
    ("value", "label"),
    [
        ("tea", "tea"),
        ("", "''"),
        (None, "None"),
        (3, "3"),
        (b"tea", "tea"),
        ([1, None], "1, None"),
        ([], "[]"),
        ({"due": 3, "of": ["a", "b"]}, "due 3, of a, b"),
        (Pane("ann", Window(0, 10), ["a"]), "a"),
    ],
)
def test_values_are_shown_as_people_write_them(value: Any, label: str) -> None:
    assert value_label(value) == label


def test_a_key_that_is_none_has_no_label() -> None:
    assert (key_label(None), key_label(("a", 1)), key_label(b"\xff")) == ("", "a, 1", "\ufffd")


def test_labels_are_one_short_line() -> None:
    shown = fitting("one\ntwo " * 30)
    assert "\n" not in shown
    assert shown.endswith("…")


def test_all_of_a_message_is_shown() -> None:
    assert tooltip_text("words", Message("k", "tea", 7)) == "words: 'tea', key k, at 7 ms"
    pane = Pane("k", Window(0, 10), 3, "late", (Window(0, 4),))
    assert tooltip_text("out", Message("k", pane, 9)) == "out: 3, key k, window [0, 10) ms, late, in place of [0, 4)"
