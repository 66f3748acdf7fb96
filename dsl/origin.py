"""Where in the user's files something was written."""

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """A line of a user's file; prints as `file:line`, relative to the working folder where it lies below it.

    Line 0 stands for what has no lines, such as the command line.
    """

    file: str
    line: int

    @property
    def path(self) -> str:
        """The file, relative to the working folder where it lies below it."""
        return os.path.relpath(self.file) if self.file.startswith(os.getcwd() + os.sep) else self.file

    def __str__(self) -> str:
        return self.file if self.line == 0 else f"{self.path}:{self.line}"


_COMMAND_LINE = Origin("the command line", 0)
_NO_LINE = Origin("a thread of the run", 0)
_NOBODYS = frozenset({"asyncio", "concurrent", "contextlib", "fluvial", "importlib", "py4j", "pyspark", "threading"})
"""Packages through which Fluvial's own code calls itself: no line of theirs is a user's."""


def here() -> Origin:
    """The newest line on the call stack that is a user's; the command line if that called Fluvial."""
    frame = sys._getframe(1)
    while (module := frame.f_globals.get("__name__", "")).partition(".")[0] in _NOBODYS:
        if module.startswith("fluvial.runtime.cli"):
            return _COMMAND_LINE
        # A thread of the run has no line of the user's below it.
        if frame.f_back is None:
            return _NO_LINE
        frame = frame.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno)
