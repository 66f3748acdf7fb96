"""Printing: JSON and tables on standard output, and lines on standard error."""

import sys

import msgspec
from rich.console import Console

from ..files import unobeyed


def print_json(value: object) -> None:
    """Print a value as JSON that people can read."""
    print(unobeyed(msgspec.json.format(msgspec.json.encode(value), indent=2)).decode())


def console() -> Console:
    """The console on standard output. If that is no terminal, it is wide, so that no row is wrapped."""
    return Console(width=None if sys.stdout.isatty() else 200)


def say(line: str) -> None:
    """Print a line on standard error at once."""
    print(line, file=sys.stderr, flush=True)
