"""The effects of a message on state, and what they emit: all of them are applied, or, if one fails, none."""

from collections.abc import Callable, Mapping
from typing import Any

from .output_buffer import OutputBuffer
from .stateful_operator import StatefulOperator


class MessageEffects:
    """The effects of one message at a time. `late` counts late messages by operator; `takes_back` says whether any
    effect may have to be taken back.

    What an operator emits when a message is added is held back until all effects of the message are applied.
    """

    def __init__(
        self, stateful: Mapping[str, StatefulOperator], outputs: OutputBuffer, late: dict[str, int], *, takes_back: bool
    ) -> None:
        self._stateful = stateful
        self._outputs = outputs
        self._late = late
        self._takes_back = takes_back
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] | None = None
        """What the message at hand has emitted; None if there is none."""

    def emitter(self, emit: Callable[..., None]) -> Callable[..., None]:
        """A function that hands on what a stateful operator emits, or its failure, once the message cannot fail any
        more."""
        if not self._takes_back:
            return emit

        def hand_on(*emitted: Any) -> None:
            if self._held is None:
                emit(*emitted)
            else:
                self._held.append((emit, emitted))

        return hand_on

    def undo(self, operator: str, message: tuple[Any, ...]) -> Callable[[], None]:
        """Begin an effect on a stateful operator; returns a function that takes it back, to be called if a later one
        fails."""
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
        """All effects of the message are applied: hand on what operators have emitted."""
        held, self._held = self._held, None
        for emit, emitted in held or ():
            emit(*emitted)

    def drop_fired(self) -> None:
        """The message failed: nothing was emitted."""
        self._held = None
