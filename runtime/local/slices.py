"""How many messages a task processes before the other tasks of its container go on, and before it looks at the size of
its state. The first number is adapted to a fixed duration."""

from ..kernel.task_state import EIGHTH

SLICE = 5000
"""The most messages that a task processes before the next task runs."""
SLICE_SECONDS = 0.05
"""The intended duration of a slice; one message may take longer."""
_FIRST = 100  # few, since nothing is known yet of how long a message takes; it doubles from slice to slice


class Slice:
    """The slice of one task: `messages` follows how long its messages take."""

    def __init__(self) -> None:
        self.messages = _FIRST

    def took(self, messages: int, seconds: float) -> None:
        """Adapt the slice after `messages` were processed in `seconds`. It at most doubles, and few messages that
        were there do not make it smaller."""
        if messages:
            fit = SLICE if seconds <= 0 else int(messages * SLICE_SECONDS / seconds)
            self.messages = max(1, min(fit, 2 * max(messages, self.messages), SLICE))


class StateSlice:
    """The slice of one task with state: how many `messages` it processes between two looks at the size of its state, so
    that this grows by at most an EIGHTH of what may be in memory."""

    def __init__(self, bound: int) -> None:
        self._growth = max(1, bound // EIGHTH)
        self.messages = _FIRST

    def took(self, messages: int, growth: int) -> None:
        """Adapt the slice after `messages` made the state grow by so many bytes. It at most doubles."""
        fit = SLICE if growth <= 0 else messages * self._growth // growth
        self.messages = max(1, min(fit, 2 * self.messages, SLICE))
