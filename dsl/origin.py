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


def here() -> Origin:
    """The newest line on the call stack that is not Fluvial's own; the command line if that called it."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(module := frame.f_globals.get("__name__", "")):
        if module.startswith("fluvial.runtime.cli"):
            return _COMMAND_LINE
        frame = frame.f_back
    return Origin(frame.f_code.co_filename, frame.f_lineno)


def _is_ours(module: str) -> bool:
    """Whether it is no module of a user; ours call one another through `contextlib` and `import`, too."""
    return module.startswith("fluvial.") or module in ("contextlib", "importlib._bootstrap")
