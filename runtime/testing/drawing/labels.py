"""Labels: short texts for keys, values and whole messages."""

from collections.abc import Callable, Mapping
from typing import Any

from ....dsl.message import Message, Pane
from ....planner.drawing.boxes import Font
from ....planner.drawing.characters import clean

Label = Callable[[Any], str]
"""What stands beside a message: a short text for its value."""

HEADING = Font(12, 16, bold=True)
TEXT = Font(12, 16)
SMALL = Font(11, 15)
# Together a third of the drawing's width: the rest is for the axis.
_ROOM, _KEY = 150.0, 90.0


def value_label(value: Any) -> str:
    """A value as people write it down: text as it is, what a pane holds, the parts of lists and dictionaries.

    >>> value_label({"due": 30, "paid": None}), value_label([1, 2]), value_label("")
    ('due 30, paid None', '1, 2', "''")
    """
    if isinstance(value, Pane):
        return value_label(value.value)
    if isinstance(value, str):
        return value or "''"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {value_label(part)}" for name, part in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(value_label, value)) or "[]"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(value)


def title_of(stream: str) -> str:
    """A stream's name as a heading, shortened to the width there is."""
    return HEADING.fitting(stream, _ROOM)


def key_label(key: object) -> str:
    """A key as text, shortened to the width there is; empty where there is none."""
    return "" if key is None else TEXT.fitting(clean(value_label(key)), _KEY)


def fitting(text: str) -> str:
    """A label on one line, shortened to the width there is."""
    return TEXT.fitting(clean(text), _ROOM)


def tooltip_text(stream: str, message: Message[Any]) -> str:
    """The whole message, for the tooltip of its mark."""
    value = message.value
    key = "" if message.key is None else f", key {value_label(message.key)}"
    if not isinstance(value, Pane):
        return clean(f"{stream}: {value!r}{key}, at {message.timestamp} ms")
    window = f"[{value.window.start}, {value.window.end})"
    past = "".join(f", in place of [{one.start}, {one.end})" for one in value.replaces)
    return clean(f"{stream}: {value.value!r}{key}, window {window} ms, {value.kind.replace('_', ' ')}{past}")
