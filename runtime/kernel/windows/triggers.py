"""The state of a trigger in a window of a key: fields of the record that the operator stores."""

from typing import Protocol

from ....dsl.windows.triggers import Trigger
from ..time.bounds import END

NEVER = Trigger(count=2**63 - 1)
"""Never fires: there are no early panes."""

AT_ONCE = Trigger(count=1, repeats=True)
"""Fires with each message: a late message is emitted at once."""

OVER = -1
"""`seen` of a trigger that will not fire again."""

SLOTS = 16
"""Timer slots within the shortest time of a trigger."""


class TriggerState(Protocol):
    """The messages `seen` since the trigger was reset, or OVER; and when it fires for the first and for the last of
    them, in ms since epoch, END for never."""

    seen: int
    due_first: int
    due_last: int


def observe(trigger: Trigger, state: TriggerState, time: int) -> bool:
    """Observe a message; returns whether the trigger fires with it. `time` is the timestamp of the message, or the
    watermark if that is later."""
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


def mark_fired(trigger: Trigger, state: TriggerState) -> None:
    """The trigger has fired: reset it, or end it if it does not repeat."""
    state.seen = 0 if trigger.repeats else OVER
    state.due_first = state.due_last = END


def start_anew(state: TriggerState) -> None:
    """Start with another trigger, which has seen no message."""
    state.seen = 0
    state.due_first = state.due_last = END


def merge_states(state: TriggerState, others: list[TriggerState]) -> None:
    """Merge the states of windows that were merged: the trigger has seen the messages of all of them."""
    for other in others:
        state.seen = OVER if OVER in (state.seen, other.seen) else state.seen + other.seen
        state.due_first = min(state.due_first, other.due_first)
        later = [time for time in (state.due_last, other.due_last) if time != END]
        state.due_last = max(later, default=END)


def slot_of(*triggers: Trigger) -> int:
    """The size of timer slots for triggers, in ms."""
    times = [time for trigger in triggers for time in (trigger.first, trigger.last) if time is not None]
    return max(1, min(times, default=1) // SLOTS)
