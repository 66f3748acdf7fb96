"""How many messages a task processes before the event loop has its turn: few enough to be over soon, as long as calls
are under way that wait for the loop."""

SLICE = 5000
"""Most messages that a task processes before the others have their turn."""
SLICE_SECONDS = 0.05
"""What a slice may take while calls are under way; one message may take longer."""
_FIRST = 100


class Slice:
    """The slice of one task, which follows what its messages take."""

    def __init__(self) -> None:
        self.messages = _FIRST

    def took(self, messages: int, seconds: float) -> None:
        """So many messages were processed, in so many seconds. The next slice is at most twice as many."""
        if messages:
            fit = SLICE if seconds <= 0 else int(messages * SLICE_SECONDS / seconds)
            self.messages = max(1, min(fit, 2 * messages, SLICE))
