"""Printing: JSON and tables on standard output, and lines on standard error."""

import sys
from typing import TextIO

import msgspec
from rich.console import Console

from ..files import unobeyed
from ..process.standard_streams import is_read

_PATIENCE = 2.0
"""Seconds that the last lines of a run wait for somebody who reads them."""


def json_text(value: object) -> str:
    """A value as JSON that people can read."""
    return unobeyed(msgspec.json.format(msgspec.json.encode(value), indent=2)).decode()


def print_json(value: object) -> None:
    """Print a value as JSON that people can read."""
    print(json_text(value))


def print_last(text: str, stream: TextIO) -> None:
    """Print the last lines of a run. They are left out where nobody reads the stream for 2 s: a full pipe must not hold
    a process that was told to stop."""
    if is_read(stream, _PATIENCE):
        print(text, file=stream)


def console() -> Console:
    """The console on standard output. If that is no terminal, it is wide, so that no row is wrapped."""
    return Console(width=None if sys.stdout.isatty() else 200)


def say(line: str) -> None:
    """Print a line on standard error at once."""
    print(line, file=sys.stderr, flush=True)
