"""One call of a user's asynchronous function."""

from typing import Any


class Call:
    """One call: its arguments, and its results or error. `tries` counts the attempts."""

    __slots__ = ("deadline", "done", "error", "expired", "item", "key", "results", "tries", "value")

    def __init__(self, key: bytes | None, value: Any, item: Any) -> None:
        self.key = key
        self.value = value
        self.item = item
        self.done = self.expired = False
        self.deadline = 0.0
        self.tries = 0
        self.results: list[Any] = []
        self.error: BaseException | None = None

    def take_error(self) -> BaseException:
        """Remove the error from the call, and return it. Its traceback will refer to the call: a reference cycle, which
        would stay in memory until the garbage collector finds it."""
        assert self.error is not None
        error, self.error = self.error, None
        return error
