"""Messages in flight in a stage with asynchronous operators: their effects are held back until all of them are known.

The outputs and the changes of state of a message are gathered while its calls are in flight. When its last call has
ended they are released together, or dropped together if one of the calls failed.

A message whose calls have ended waits for those that came before it, where both have an effect on one target, so that
an operator beside the calls sees messages in the order in which they came. A target is an output, or a key of an
operator with state. Where messages may wait for other reasons than their order, calls that keep an order are targets,
too, so that one that waits is not overtaken by the next. Messages stand in the lines of their targets as soon as they
are fed, so that all lines have one order, and no two messages wait for each other."""

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from ...process.interruptions import INTERRUPTIONS

Effect = tuple[str, Callable[..., None], tuple[Any, ...]]
"""An output or a change of state, to be applied when the message is released: the operator, a function, its
arguments."""


class InFlightMessage:
    """A message in flight, or a firing. `watermark` is the watermark when it came. `where` identifies the message or
    the firing. `queue` is that of its input or operator; `behind` counts those that landed, and were taken out of the
    queue, right behind this one. `ordered` has its calls that keep an order, if it may have to wait for other messages
    than those before it in that order: the operator, and the key if the order is by key. A firing is `at_end` if
    the end of input has made it."""

    __slots__ = (
        "at_end",
        "behind",
        "done",
        "effects",
        "failed",
        "lines",
        "ordered",
        "pending",
        "queue",
        "watermark",
        "where",
    )

    def __init__(self, watermark: int, where: tuple[Any, ...], queue: "InFlightQueue") -> None:
        self.watermark = watermark
        self.where = where
        self.queue = queue
        self.pending = 1
        self.behind = 0
        self.at_end = self.failed = self.done = False
        self.effects: list[Effect] = []
        self.ordered: tuple[tuple[str, Any], ...] = ()
        self.lines: tuple[tuple[Any, Line], ...] = ()


class Line(deque[InFlightMessage]):
    """The messages in flight with an effect on one target, in the order they came."""


# Taking them out costs a pass over the queue: with fewer it would be made too often, with more memory would be held for
# nothing.
MOST_DONE = 1000
"""So many messages that have landed may stay in a queue, and as many as are in flight."""


class InFlightQueue(deque[InFlightMessage]):
    """The messages in flight of one input or operator, named `start`, in the order they came, and some that have landed
    behind them. `opened` counts all that came so far, `done` those here that have landed, `removed` those taken out
    behind others.
    """

    opened = done = removed = 0

    def __init__(self, start: str) -> None:
        super().__init__()
        self.start = start

    def land(self, message: InFlightMessage) -> bool:
        """A message has landed. Returns whether it was the oldest in flight."""
        message.done = True
        self.done += 1
        oldest = self[0] is message
        if oldest:
            while self and self[0].done:
                self.removed -= self.popleft().behind
                self.done -= 1
        elif self.done > MOST_DONE and 2 * self.done > len(self):
            self._compact()
        return oldest

    def _compact(self) -> None:
        """Take out what has landed: behind a call that takes long there may be as much as is read meanwhile."""
        before, in_flight = self[0], list[InFlightMessage]()
        for message in self:
            if message.done:
                before.behind += 1 + message.behind
            else:
                in_flight.append(message)
                before = message
        self.clear()
        self.extend(in_flight)
        self.removed += self.done
        self.done = 0


class Effects(Protocol):
    """Applies all effects of a message to state, or none of them."""

    def undo(self, window: str, message: tuple[Any, ...], /) -> Callable[[], None]:
        """Prepare to take back the next effect; returns the function that does so."""
        ...

    def emit_fired(self) -> None:
        """All effects of the message are applied: pass on the outputs of its operators."""
        ...

    def drop_fired(self) -> None:
        """The message failed: drop the outputs of its operators."""
        ...


class InFlightTracker:
    """The messages of a task that are in flight, in a queue for each input and each stateful operator.

    `landed(where)` is called for each message that has landed, and `fail(message, error, operator)` if an effect
    raises. `moved(start)` is called when the oldest message of a queue has landed. `waiting` counts the messages whose
    calls have ended, and that wait for others.

    While `paused[0]`, in the middle of a firing, messages of the inputs are held back when their calls have ended: they
    came after what fires, and must not change state before all of it has fired. So are firings of operators that
    `precedes` says are before the one that fires.

    `firings` are those in flight for which the messages of the inputs wait.
    """

    def __init__(
        self,
        landed: Callable[[tuple[Any, ...]], None],
        fail: Callable[[InFlightMessage, BaseException, str], None],
        moved: Callable[[str], None],
        effects: Effects,
    ) -> None:
        self.paused = [False]
        self.precedes: Callable[[str], bool] = _never
        self.firings: set[InFlightMessage] = set()
        self._held: deque[InFlightMessage] = deque()
        self._report_landed = landed
        self._fail = fail
        self._moved = moved
        self._effects = effects
        self._queues: dict[str, InFlightQueue] = {}
        self._lines: dict[Any, Line] = {}
        self.waiting = 0
        self.releasing: tuple[Any, ...] | None = None
        """What identifies the message whose effects are being applied; None before the first one."""

    def __len__(self) -> int:
        return sum(len(queue) - queue.done for queue in self._queues.values())

    def queue(self, start: str) -> InFlightQueue:
        """The queue of an input or operator."""
        queue = self._queues.get(start)
        if queue is None:
            queue = self._queues[start] = InFlightQueue(start)
        return queue

    def open(self, watermark: int, start: str, where: tuple[Any, ...]) -> InFlightMessage:
        """Track a message of an input or operator."""
        queue = self.queue(start)
        message = InFlightMessage(watermark, where, queue)
        queue.append(message)
        queue.opened += 1
        return message

    def open_firing(self, watermark: int, start: str, where: tuple[Any, ...]) -> InFlightMessage:
        """Track what an operator has fired, for which the messages of the inputs wait."""
        message = self.open(watermark, start, where)
        self.firings.add(message)
        return message

    def opened(self, start: str) -> int:
        """How many messages of an input or operator came so far."""
        return self.queue(start).opened

    def landed(self, start: str) -> int:
        """How many messages of an input or operator have landed, counted from the first up to the first gap."""
        queue = self.queue(start)
        return queue.opened - len(queue) - queue.removed

    def floor(self, start: str) -> int | None:
        """The watermark of the oldest message in flight of an input or operator; None if there is none.

        Each queue has its own floor, since watermarks grow in the order of arrival only within a queue: a pane may have
        an earlier watermark than a message that came before it.
        """
        queue = self._queues.get(start)
        return queue[0].watermark if queue else None

    def fed(self, message: InFlightMessage) -> None:
        """A message was passed on: its calls are made, and its effects beside them are known."""
        message.pending -= 1
        if message.effects or message.ordered:
            self._line_up(message)
        if not message.pending:
            self.close(message)

    def _line_up(self, message: InFlightMessage) -> None:
        targets, lines = set(map(_target, message.effects)).union(message.ordered), self._lines
        # Most messages have ended by now, and no other one waits for their targets: they need no line.
        if message.pending or not lines.keys().isdisjoint(targets):
            message.lines = tuple((target, lines.setdefault(target, Line())) for target in targets)
            for _, line in message.lines:
                line.append(message)

    @property
    def has_held(self) -> bool:
        """Whether what is in flight is held back, or will be, until the firing is over."""
        return any(queue and self._is_held(queue[0]) for queue in self._queues.values())

    def release_held(self) -> None:
        """Go on with the messages that were held back, unless a firing pauses again."""
        while self._held and not self.paused[0]:
            self.close(self._held.popleft())

    def _waits(self, message: InFlightMessage) -> bool:
        """Whether this is to be held back while a firing has paused. If so, it is held."""
        held = self._is_held(message)
        if held:
            self._held.append(message)
        return held

    def _is_held(self, one: InFlightMessage) -> bool:
        """A message is identified by its batch and index, a firing by its operator and more."""
        return len(one.where) == 2 or self.precedes(one.where[0])

    def close(self, message: InFlightMessage) -> None:
        """The last branch of a message has ended: release its effects, once it is first in its lines."""
        # A message that is first in one line and not in another waits too: lines have one order, so no two wait for
        # each other.
        if message.lines and not _is_first(message):
            self.waiting += 1
        elif not (self.paused[0] and self._waits(message)):
            self._land_in_order(message)

    def _land_in_order(self, first: InFlightMessage) -> None:
        """Release a message that is first in its lines, and those that are first then and have ended."""
        if not first.lines:
            self._land(first)
            return
        ready = [first]
        while ready:
            landed = ready.pop()
            if self.paused[0] and self._waits(landed):
                continue
            self._land(landed)
            for target, line in landed.lines:
                line.popleft()
                if not line:
                    del self._lines[target]
                elif not line[0].pending and _is_first(line[0]):
                    self.waiting -= 1
                    ready.append(line[0])

    def _land(self, message: InFlightMessage) -> None:
        if message.effects and not message.failed:
            self._release(message)
        self._report_landed(message.where)
        if self.firings:
            self.firings.discard(message)
        if message.queue.land(message):
            self._moved(message.queue.start)

    def _release(self, message: InFlightMessage) -> None:
        effects, self.releasing = message.effects, message.where
        if len(effects) > 1:
            # Changes of state come first: if one fails, no output is released.
            effects.sort(key=_is_output)
        undo: list[Callable[[], None]] = []
        for operator, apply, arguments in effects:
            try:
                if len(arguments) > 1:
                    undo.append(self._effects.undo(operator, arguments))
                apply(*arguments)
            except INTERRUPTIONS:
                raise
            # Of the user's code, or of a value that cannot be encoded: the message fails, with all of its effects.
            except BaseException as error:
                for take_back in reversed(undo):
                    take_back()
                self._effects.drop_fired()
                self._fail(message, error, operator)
                return
        # Last: the next operators process what is emitted at once, so that it could not be taken back.
        self._effects.emit_fired()


def _never(_: str) -> bool:
    return False


def _is_first(message: InFlightMessage) -> bool:
    return all(line[0] is message for _, line in message.lines)


def _target(effect: Effect) -> Any:
    """Where messages have effects in the order they came: an output, or a key of an operator with state."""
    operator, _, arguments = effect
    return operator if len(arguments) == 1 else (operator, arguments[0])


def _is_output(effect: Effect) -> bool:
    return len(effect[2]) == 1
