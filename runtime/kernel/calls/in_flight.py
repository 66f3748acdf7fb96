"""Cells: what one message gives rise to in a stage with asynchronous operators, held back until all of it is there.

A message enters the stage and gets a cell. Its outputs and changes of state gather there, while calls are under way;
when the last has come back they are released together, or dropped together if one of them failed.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

Effect = tuple[str, Callable[..., None], tuple[Any, ...]]
"""What a message does once it is released: the operator, a function, its arguments."""


class InFlightMessage:
    """One message under way. `watermark` is the one it met when it came; `where` tells which message or pane it is,
    `queue` has those of its stream or window."""

    __slots__ = ("done", "effects", "failed", "pending", "queue", "watermark", "where")

    def __init__(self, watermark: int, where: tuple[Any, ...], queue: "InFlightQueue") -> None:
        self.watermark = watermark
        self.where = where
        self.queue = queue
        self.pending = 1
        self.failed = False
        self.done = False
        self.effects: list[Effect] = []


class InFlightQueue(deque[InFlightMessage]):
    """The messages under way of one stream or window, in the order they came. `opened` is how many came so far."""

    opened = 0


class Effects(Protocol):
    """What must be known of effects on windows, for all of a cell's to be had or none."""

    def undo(self, window: str, message: tuple[Any, ...], /) -> Callable[[], None]:
        """What takes back an effect that is about to be had."""
        ...

    def emit_fired(self) -> None: ...

    def drop_fired(self) -> None: ...


class InFlightTracker:
    """The messages of a task that are under way; those of one stream or window in the order they came.

    `landed(where)` is called for each message that has landed, `fail(cell, error, operator)` if an effect raises, and
    `moved()` when the oldest one of a stream or window is another.
    """

    def __init__(
        self,
        landed: Callable[[tuple[Any, ...]], None],
        fail: Callable[[InFlightMessage, BaseException, str], None],
        moved: Callable[[], None],
        effects: Effects,
    ) -> None:
        self._tell_landed = landed
        self._fail = fail
        self._moved = moved
        self._effects = effects
        self._queues: dict[str, InFlightQueue] = {}

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    def queue(self, start: str) -> InFlightQueue:
        """The lane of a stream or window."""
        return self._queues.setdefault(start, InFlightQueue())

    def open(self, watermark: int, start: str, where: tuple[Any, ...]) -> InFlightMessage:
        """A cell for a message from a stream or window."""
        queue = self.queue(start)
        message = InFlightMessage(watermark, where, queue)
        queue.append(message)
        queue.opened += 1
        return message

    def opened(self, start: str) -> int:
        """How many messages of a stream or window came so far."""
        return self.queue(start).opened

    def landed(self, start: str) -> int:
        """How many of them, counted from the first, have landed without a gap."""
        queue = self.queue(start)
        return queue.opened - len(queue)

    def floor(self, start: str) -> int | None:
        """The watermark that the oldest message under way from a stream or window met; None if there is none.

        Each has its own floor, for it is only their own watermarks that grow in the order of arrival: a pane may meet
        an earlier time than a message before it.
        """
        found = self._queues.get(start)
        return found[0].watermark if found else None

    def close(self, message: InFlightMessage) -> None:
        """The last branch of the message has ended: release what it gathered."""
        if message.effects and not message.failed:
            self._release(message)
        message.done = True
        self._tell_landed(message.where)
        queue = message.queue
        if queue[0] is message:
            while queue and queue[0].done:
                queue.popleft()
            self._moved()

    def _release(self, message: InFlightMessage) -> None:
        effects = message.effects
        if len(effects) > 1:
            # State first: it may fail, and then the outputs stay back as well.
            effects.sort(key=_is_output)
        undo: list[Callable[[], None]] = []
        for operator, apply, arguments in effects:
            try:
                if len(arguments) > 1:
                    undo.append(self._effects.undo(operator, arguments))
                apply(*arguments)
            except Exception as error:
                for take_back in reversed(undo):
                    take_back()
                self._effects.drop_fired()
                self._fail(message, error, operator)
                return
        self._effects.emit_fired()


def _is_output(effect: Effect) -> bool:
    return len(effect[2]) == 1
