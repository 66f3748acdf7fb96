"""One call of a user's asynchronous function."""

from typing import Any


class Call:
    """One call: its argument `value`, and its results or error. `tries` counts the attempts, and `deadline` is when the
    present one expires, in seconds of `LoopTime`.

    `path` tells the calls of one message apart. It is the number of the call within the message or, behind another
    call, the path of that and a number. `name` is its name in the journal. It is made before the call, since the
    function may change its argument.
    """

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
