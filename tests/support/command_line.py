"""The command line as tests call it."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, and what it printed."""

    code: int
    out: str
    err: str


Fluvial = Callable[..., Ended]
"""Runs `fluvial` with these words."""
