"""The parts that labels of operators are made of: the name of a function, and the line where something was written."""

from collections.abc import Callable
from functools import partial
from pathlib import PurePath
from typing import Any

from ..origin import Origin
from ..text import ordinal


def function_name(fn: Callable[..., Any]) -> str:
    """A function's name; a lambda is a lambda, and what `partial` makes has the name of what it calls."""
    while isinstance(fn, partial):
        fn = fn.func
    name = getattr(fn, "__name__", None)
    if not isinstance(name, str):  # an object that has all attributes, as some mocks have
        name = type(fn).__name__
    return "lambda" if name == "<lambda>" else name


def line_of(origin: Origin) -> str:
    """The file, without its folder, and the line; empty for what has no lines."""
    return f"{PurePath(origin.file).name}:{origin.line}" if origin.line else ""


def call_text(name: str, *arguments: str) -> str:
    """A name with those of its arguments that are not empty: `filter(lambda, visits.py:12)`, or `map`."""
    text = ", ".join(filter(None, arguments))
    return f"{name}({text})" if text else name


def numbered_label(label: str, line: str, number: int) -> str:
    """A label with the line and the number there.

    >>> numbered_label("map(lambda, visits.py:12)", "visits.py:12", 1), numbered_label("send_to out", "visits.py:12", 2)
    ('map(lambda, visits.py:12, 1st)', 'send_to out (visits.py:12, 2nd)')
    """
    where = ", ".join([*([line] if line and line not in label else ()), ordinal(number)])
    return f"{label[:-1]}, {where})" if label.endswith(")") else f"{label} ({where})"
