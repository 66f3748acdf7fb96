"""Coroutines in the event loop of users' functions."""

from collections.abc import Coroutine
from typing import Any

from fluvial.runtime.kernel.calls.cancellation import CallLoop


def in_loop(work: Coroutine[Any, Any, Any]) -> Any:
    """What a coroutine returns in a loop that has pools."""
    loop = CallLoop()
    loop.begin()
    try:
        return loop.run(work)
    finally:
        loop.end()
