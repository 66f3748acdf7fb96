"""The user's own lines: where an operator was written, and what is written there."""

import linecache

from ...dsl.origin import Origin


def place(file: str, line: int) -> str:
    """`file:line`, relative to the working folder where the file lies below it."""
    try:
        return str(Origin(file, line))
    except OSError:  # the working folder is gone
        return f"{file}:{line}"


def text_at(file: str, line: int) -> str:
    """That line of the file without its indentation; empty where the file is not there or cannot be read."""
    try:
        linecache.checkcache(file)
        return linecache.getline(file, line).strip()
    except (OSError, ValueError):  # names that no file system takes, such as those with a NUL
        return ""
