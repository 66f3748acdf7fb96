"""Triggers: when a window shows what it has before it is over, and when it shows what came late."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from ..errors import PipelineError
from ..validation import at_least_one, flag, millis, require
from ..verb_calls import explained_call


@dataclass(frozen=True, slots=True)
class Trigger:
    """Fires at the `count`th message, `first` ms after the first one, or `last` ms after the last one: whichever comes
    first of those that are given. It does so once for each key and window, or, where it `repeats`, counts
    from zero again at the next message.

    Made by `after_count`, `after`, `any_of` and `repeat`.

    >>> repeat(after(last=timedelta(seconds=1)))
    Trigger(count=None, first=None, last=1000, repeats=True)
    """

    count: int | None = None
    first: int | None = None
    last: int | None = None
    repeats: bool = False

    def __post_init__(self) -> None:
        remedy = "write after_count(100), after(first=timedelta(...)) or after(last=timedelta(...))"
        given = [name for name in ("count", "first", "last") if getattr(self, name) is not None]
        wrong = "Trigger() never fires"
        require(bool(given), PipelineError, wrong, "a count of messages, or a time from the first or last one", remedy)
        for name in given:
            at_least_one(f"Trigger: {name}", getattr(self, name), "messages" if name == "count" else "milliseconds")
        flag("Trigger: repeats", self.repeats)


@explained_call
def after_count(messages: int) -> Trigger:
    """Fires when a window of a key has so many messages.

    >>> after_count(100)
    Trigger(count=100, first=None, last=None, repeats=False)
    """
    return Trigger(count=at_least_one("after_count: messages", messages, "messages"))


@explained_call
def after(*, first: timedelta | None = None, last: timedelta | None = None) -> Trigger:
    """Fires when so much time has passed since the `first` message of a window of a key, or since the `last` one.

    It is the window's own time, the watermark, which messages of all keys move: a key's own next message is taken in
    before time is where that message is. A message behind the watermark counts as if it had come with it.

    >>> after(first=timedelta(seconds=10))
    Trigger(count=None, first=10000, last=None, repeats=False)
    """
    wrong = "after() got " + ("both first= and last=" if first is not None and last is not None else "no time")
    remedy = "write after(first=timedelta(...)) or after(last=timedelta(...)); any_of(...) takes several"
    require((first is None) != (last is None), PipelineError, wrong, "one of first= and last=", remedy)
    return Trigger(
        first=None if first is None else millis("after: first", first, least=1),
        last=None if last is None else millis("after: last", last, least=1),
    )


@explained_call
def any_of(*triggers: Trigger) -> Trigger:
    """Fires when one of several triggers does; all of them end with that, or, repeated, start from zero.

    >>> any_of(after_count(100), after(first=timedelta(seconds=10)))
    Trigger(count=100, first=10000, last=None, repeats=False)
    """
    good = len(triggers) > 0 and all(isinstance(trigger, Trigger) for trigger in triggers)
    require(
        good, PipelineError, f"any_of got {triggers!r}", "triggers, one or more", "write any_of(after_count(9), ...)"
    )
    good = not any(trigger.repeats for trigger in triggers)
    require(good, PipelineError, "any_of got a trigger that repeats", "triggers that fire once", "repeat(any_of(...))")
    return Trigger(
        count=_least(trigger.count for trigger in triggers),
        first=_least(trigger.first for trigger in triggers),
        last=_least(trigger.last for trigger in triggers),
    )


@explained_call
def repeat(trigger: Trigger) -> Trigger:
    """Fires each time the trigger would; after a firing the trigger starts from zero at the next message.

    >>> repeat(after_count(100)).repeats
    True
    """
    require(
        isinstance(trigger, Trigger),
        PipelineError,
        f"repeat got {trigger!r}",
        "a trigger",
        "write repeat(after_count(100))",
    )
    return Trigger(trigger.count, trigger.first, trigger.last, repeats=True)


def _least(numbers: Iterable[int | None]) -> int | None:
    return min((number for number in numbers if number is not None), default=None)
