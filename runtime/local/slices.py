"""How many messages a task processes before it yields to the event loop. While calls are in flight the number is
adapted to a fixed duration."""

SLICE = 5000
"""The most messages that a task processes before the next task runs."""
SLICE_SECONDS = 0.05
"""The intended duration of a slice while calls are in flight; one message may take longer."""
_FIRST = 100


class Slice:
    """The slice of one task: `messages` follows how long its messages take."""

    def __init__(self) -> None:
        self.messages = _FIRST

    def took(self, messages: int, seconds: float) -> None:
        """Adapt the slice after `messages` were processed in `seconds`. It at most doubles."""
        if messages:
            fit = SLICE if seconds <= 0 else int(messages * SLICE_SECONDS / seconds)
            self.messages = max(1, min(fit, 2 * messages, SLICE))
