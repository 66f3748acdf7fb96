"""One call of a user's asynchronous function."""

from typing import Any


class Call:
    """One call: its arguments, and its results or error. `tries` counts the attempts. `path` tells it from the other
    calls of its message: its number, or that of a call behind another one, with the path of that. `name` is that in
    the journal, of before the call: a function may change its argument."""

    __slots__ = ("deadline", "done", "error", "expired", "item", "key", "name", "path", "results", "tries", "value")

    def __init__(self, key: bytes | None, value: Any, item: Any, path: Any = 0) -> None:
        self.key = key
        self.value = value
        self.item = item
        self.path = path
        self.name: bytes | None = None
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
