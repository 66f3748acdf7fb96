"""Waiting for what other threads, processes and brokers do: for a condition, never for a time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
PATIENCE = 60.0


def wait_until(look: Callable[[], T], awaited: str, seconds: float = PATIENCE) -> T:
    """Return what `look()` gives as soon as that is true.

    Raises AssertionError with what was awaited after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {awaited}"
        time.sleep(0.03)
    return found
