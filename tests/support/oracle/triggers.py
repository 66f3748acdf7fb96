"""What triggers see of windows, and when they fire: the oracle's part that knows triggers."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from fluvial.dsl import Trigger


@dataclass
class Seen:
    """What a trigger has seen of one window of a key since it began: when each message came, by the window's clock.

    A trigger that fires once is `over` then, and looks at nothing more of that window and phase.
    """

    times: list[float] = field(default_factory=list)
    over: bool = False

    def add(self, time: float) -> None:
        if not self.over:
            self.times.append(time)


def together(parts: Iterable[Seen]) -> Seen:
    """What the trigger of a session has seen that others became: their messages, and that it fired for one of them."""
    found = list(parts)
    return Seen([time for seen in found for time in seen.times], any(seen.over for seen in found))


def reached(trigger: Trigger, seen: Seen) -> bool:
    """Whether there are as many messages as the trigger waits for."""
    return not seen.over and trigger.count is not None and len(seen.times) >= trigger.count


def deadline(trigger: Trigger | None, seen: Seen) -> float:
    """When the trigger fires if no message comes before; infinity where no time lets it fire."""
    times = [math.inf]
    if trigger is not None and seen.times and not seen.over:
        if trigger.first is not None:
            times.append(min(seen.times) + trigger.first)
        if trigger.last is not None:
            times.append(max(seen.times) + trigger.last)
    return min(times)


def after_firing(trigger: Trigger) -> Seen:
    """What is left to a trigger that has fired: it begins anew with the next message, or never again."""
    return Seen(over=not trigger.repeats)
