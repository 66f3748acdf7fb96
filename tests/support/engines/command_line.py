"""The command line as tests call it."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code, and what it printed."""

    code: int
    out: str
    err: str


Fluvial = Callable[..., Ended]
"""Runs `fluvial` with these words."""


def forget_modules_of(folder: Path) -> None:
    """Unload what a command has loaded from a folder: another test may have a file of the same name."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if file is not None and Path(file).is_relative_to(folder):
            del sys.modules[name]
