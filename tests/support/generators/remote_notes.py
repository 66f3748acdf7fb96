"""Notes of what is written to the remote tables of random pipelines, in this process.

No function of a pipeline comes from here: what is pickled with its code would note in a copy.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Written = dict[str, list[tuple[Any, Any]]]
"""By table, the keys and rows that were written, in the order in which they were."""

_notes: list[Written] = []


def note(table: str, key: Any, row: Any) -> None:
    """Note that a row is written."""
    _notes[-1].setdefault(table, []).append((key, row))


@contextmanager
def noted() -> Iterator[Written]:
    """What is written from here on."""
    _notes.append({})
    try:
        yield _notes[-1]
    finally:
        _notes.pop()
