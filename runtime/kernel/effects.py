"""What a message does to state and emits by it: all of it, or, if it fails, nothing."""

from collections.abc import Callable, Mapping
from typing import Any

from .output_buffer import OutputBuffer
from .stateful_operator import StatefulOperator


class MessageEffects:
    """The effects of one message at a time. `late` counts late messages by operator; `takes_back` says whether any
    effect may have to be taken back.

    What operators emit as they take a message in is held back until all that the message does to state is done.
    """

    def __init__(
        self, stateful: Mapping[str, StatefulOperator], outputs: OutputBuffer, late: dict[str, int], *, takes_back: bool
    ) -> None:
        self._stateful = stateful
        self._outputs = outputs
        self._late = late
        self._takes_back = takes_back
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] | None = None
        """What was emitted by the message under way; None while none is."""

    def emitter(self, emit: Callable[..., None]) -> Callable[..., None]:
        """A function that hands on what a stateful operator emits, or its failure, once that may be."""
        if not self._takes_back:
            return emit

        def hand_on(*emitted: Any) -> None:
            if self._held is None:
                emit(*emitted)
            else:
                self._held.append((emit, emitted))

        return hand_on

    def undo(self, operator: str, message: tuple[Any, ...]) -> Callable[[], None]:
        """Begin an effect on a stateful operator; returns what takes it back, should one after it fail."""
        restore = self._stateful[operator].undo(message[0], message[2])
        if self._held is None:
            self._held = []
        count, records = self._late.get(operator), self._outputs.of(operator)
        length = len(records)

        def take_back() -> None:
            restore()
            del records[length:]
            if count is not None:
                self._late[operator] = count
            else:
                self._late.pop(operator, None)

        return take_back

    def emit_fired(self) -> None:
        """The message has done to state all that it was to do: hand on what it has let operators emit."""
        held, self._held = self._held, None
        for emit, emitted in held or ():
            emit(*emitted)

    def drop_fired(self) -> None:
        """The message failed: nothing was emitted."""
        self._held = None
