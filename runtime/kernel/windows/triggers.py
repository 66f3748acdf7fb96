"""What a trigger has seen of a window of a key, kept with it: fields of the entry that the operator keeps."""

from typing import Protocol

from ....dsl.triggers import Trigger
from ..time.bounds import END

NEVER = Trigger(count=2**63 - 1)
"""Fires not at all: there are no early panes."""

AT_ONCE = Trigger(count=1, repeats=True)
"""Fires with each message: what comes late is shown as it comes."""

OVER = -1
"""`seen` of a trigger that has fired for good."""

SLOTS = 16
"""Slots of timers within the shortest time of a trigger."""


class TriggerState(Protocol):
    """What is kept: messages `seen` since the trigger began, or OVER; when it fires for the `first` of them, and for
    the `last`, in ms since epoch, END for not at all."""

    seen: int
    due_first: int
    due_last: int


def see(trigger: Trigger, state: TriggerState, time: int) -> bool:
    """Count a message in; returns whether the trigger fires with it. `time` is the message's, or the watermark, if that
    is later."""
    if state.seen == OVER:
        return False
    state.seen += 1
    if trigger.first is not None:
        state.due_first = min(state.due_first, time + trigger.first)
    if trigger.last is not None:
        due = time + trigger.last
        state.due_last = due if state.due_last == END else max(state.due_last, due)
    return trigger.count is not None and state.seen >= trigger.count


def due(state: TriggerState) -> int:
    """When the trigger fires if no message comes."""
    return min(state.due_first, state.due_last)


def has_fired(trigger: Trigger, state: TriggerState) -> None:
    """Begin anew, or be over."""
    state.seen = 0 if trigger.repeats else OVER
    state.due_first = state.due_last = END


def begin(state: TriggerState) -> None:
    """Another trigger looks from here on."""
    state.seen = 0
    state.due_first = state.due_last = END


def unite(state: TriggerState, others: list[TriggerState]) -> None:
    """Two windows have become one; it has seen what both have."""
    for other in others:
        state.seen = OVER if OVER in (state.seen, other.seen) else state.seen + other.seen
        state.due_first = min(state.due_first, other.due_first)
        later = [time for time in (state.due_last, other.due_last) if time != END]
        state.due_last = max(later, default=END)


def slot_of(*triggers: Trigger) -> int:
    """The size of slots of timers that fits triggers, in ms."""
    times = [time for trigger in triggers for time in (trigger.first, trigger.last) if time is not None]
    return max(1, min(times, default=1) // SLOTS)
