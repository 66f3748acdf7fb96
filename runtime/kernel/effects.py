"""The effects of a message on state, and their outputs: all of them are applied, or none if one fails."""

from collections.abc import Callable, Mapping
from typing import Any

from .output_buffer import OutputBuffer
from .stateful_operator import StatefulOperator


class MessageEffects:
    """The effects of one message at a time. `late` counts late messages by operator. `takes_back` says that effects may
    have to be taken back.

    If an operator emits while a message is added, its outputs are held back until all effects of the message are
    applied.
    """

    def __init__(
        self, stateful: Mapping[str, StatefulOperator], outputs: OutputBuffer, late: dict[str, int], *, takes_back: bool
    ) -> None:
        self._stateful = stateful
        self._outputs = outputs
        self._late = late
        self._takes_back = takes_back
        self._held: list[tuple[Callable[..., None], tuple[Any, ...]]] | None = None
        """The outputs of the current message; None if there is none."""

    def emitter(self, emit: Callable[..., None]) -> Callable[..., None]:
        """A function that passes on an output of a stateful operator, or its failure. It holds the output back as long
        as the current message may fail."""
        if not self._takes_back:
            return emit

        def pass_on(*emitted: Any) -> None:
            if self._held is None:
                emit(*emitted)
            else:
                self._held.append((emit, emitted))

        return pass_on

    def undo(self, operator: str, message: tuple[Any, ...]) -> Callable[[], None]:
        """Prepare an effect on a stateful operator. Returns a function that takes it back, to be called if a later
        effect fails."""
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
        """All effects of the message are applied: pass on the outputs of its operators."""
        held, self._held = self._held, None
        for emit, emitted in held or ():
            emit(*emitted)

    def drop_fired(self) -> None:
        """The message failed: drop the outputs of its operators."""
        self._held = None
