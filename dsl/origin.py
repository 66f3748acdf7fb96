"""Where in the user's files something was written."""

import os
import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Origin:
    """A line of a user's file; prints as `file:line`, relative to the working folder where it lies below it."""

    file: str
    line: int

    def __str__(self) -> str:
        path = os.path.relpath(self.file) if self.file.startswith(os.getcwd() + os.sep) else self.file
        return f"{path}:{self.line}"


def here() -> Origin:
    """The newest line on the call stack that is not Fluvial's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("fluvial."):
        frame = frame.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno)
