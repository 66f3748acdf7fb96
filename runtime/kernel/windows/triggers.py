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


class Watched(Protocol):
    """What is kept: messages `seen` since the trigger began, or OVER; when it fires for the `first` of them, and for
    the `last`, in ms since epoch, END for not at all."""

    seen: int
    due_first: int
    due_last: int


def see(trigger: Trigger, watched: Watched, time: int) -> bool:
    """Count a message in; returns whether the trigger fires with it. `time` is the message's, or the watermark, if that
    is later."""
    if watched.seen == OVER:
        return False
    watched.seen += 1
    if trigger.first is not None:
        watched.due_first = min(watched.due_first, time + trigger.first)
    if trigger.last is not None:
        due = time + trigger.last
        watched.due_last = due if watched.due_last == END else max(watched.due_last, due)
    return trigger.count is not None and watched.seen >= trigger.count


def due(watched: Watched) -> int:
    """When the trigger fires if no message comes."""
    return min(watched.due_first, watched.due_last)


def has_fired(trigger: Trigger, watched: Watched) -> None:
    """Begin anew, or be over."""
    watched.seen = 0 if trigger.repeats else OVER
    watched.due_first = watched.due_last = END


def begin(watched: Watched) -> None:
    """Another trigger looks from here on."""
    watched.seen = 0
    watched.due_first = watched.due_last = END


def unite(watched: Watched, others: list[Watched]) -> None:
    """Two windows have become one; it has seen what both have."""
    for other in others:
        watched.seen = OVER if OVER in (watched.seen, other.seen) else watched.seen + other.seen
        watched.due_first = min(watched.due_first, other.due_first)
        later = [time for time in (watched.due_last, other.due_last) if time != END]
        watched.due_last = max(later, default=END)


def slot_of(*triggers: Trigger) -> int:
    """The size of slots of timers that fits triggers, in ms."""
    times = [time for trigger in triggers for time in (trigger.first, trigger.last) if time is not None]
    return max(1, min(times, default=1) // SLOTS)
