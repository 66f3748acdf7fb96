"""Printing: JSON and tables on standard output, and lines on standard error."""

import sys
from typing import TextIO

import msgspec
from rich.console import Console

from ..files import unobeyed
from ..process.standard_streams import is_read, say_last

_PATIENCE = 2.0
"""Seconds that the last lines of a run wait for somebody who reads them."""


def json_text(value: object) -> str:
    """A value as JSON that people can read."""
    return unobeyed(msgspec.json.format(msgspec.json.encode(value), indent=2)).decode()


def print_json(value: object) -> None:
    """Print a value as JSON that people can read."""
    print(json_text(value))


def print_if_read(text: str, stream: TextIO, seconds: float = 0.0) -> bool:
    """Print a text unless nobody reads the stream, now or within so many seconds. Returns whether it was printed."""
    if not is_read(stream, seconds):
        return False
    print(text, file=stream)
    return True


def print_last(text: str, stream: TextIO, patience: float = _PATIENCE) -> None:
    """Print the last lines of a run. They are left out where nobody reads the stream for so many seconds: a full pipe
    must not hold a process that was told to stop. Standard error says so, if that is read."""
    if not print_if_read(text, stream, patience):
        say_last("The summary or report of this run is left out: nobody reads the pipe that it goes to.")


def console() -> Console:
    """The console on standard output. If that is no terminal, it is wide, so that no row is wrapped."""
    return Console(width=None if sys.stdout.isatty() else 200)


def say(line: str) -> None:
    """Print a line on standard error at once."""
    print(line, file=sys.stderr, flush=True)
