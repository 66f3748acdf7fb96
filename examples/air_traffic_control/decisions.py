"""Whether, when and by which channel a member is told."""

from collections import Counter
from collections.abc import Iterable
from datetime import timedelta
from hashlib import sha256

from fluvial.dsl import ClockTimers, Context, KeyedProcessor, ListState, Message, Tag, Tagged, Timer, ValueState

from .messages import Channel, Communication, Preferences, Ranked, Wanted
from .quiet_hours import day_of, end_of_day, end_of_quiet_hours

PUSHED_FROM = 0.5
"""From this score on a member is told by a push message, else by mail."""


class Decisions(KeyedProcessor[str, Wanted, Communication]):
    """What is urgent is told at once. All else is gathered, and told together when the quiet hours are over, as often
    as the member wants in a day.

    What waits is state, and so are the timers: a member who sleeps through a crash is told in the morning.
    """

    ignored = Tag("ignored", Ranked)
    waiting = ListState(Ranked)
    preferences = ValueState(Preferences, Preferences())
    day = ValueState(int)
    told = ValueState(int, 0)
    clock = ClockTimers()

    def __init__(self, gather: timedelta) -> None:
        self._gather = gather // timedelta(milliseconds=1)

    def on_message(self, message: Message[Wanted], context: Context[str]) -> Iterable[Communication | Tagged[Ranked]]:
        """Tell at once, later, or never."""
        ranked = message.value.ranked
        self.preferences.value = message.value.preferences
        if ranked.candidate.event.urgent:
            yield communication(context.key, "push", [ranked])
        elif ranked.too_low:
            yield self.ignored(ranked)
        else:
            if not self.waiting:
                self._tell_at(self.clock.now + self._gather)
            self.waiting.append(ranked)

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[Communication]:
        """Tell what waits, unless the member has been told often enough today."""
        preferences = self.preferences.value
        today = day_of(timer.time, preferences)
        if today != self.day.value:
            self.day.value, self.told.value = today, 0
        if self.told.value >= preferences.per_day:
            self._tell_at(end_of_day(timer.time, preferences))
            return
        ranked = sorted(self.waiting, key=lambda one: (-one.score, one.candidate.event.id))
        self.waiting.clear()
        self.told.value += 1
        pushed = preferences.push and ranked[0].score >= PUSHED_FROM
        yield communication(context.key, "push" if pushed else "email", ranked)

    def _tell_at(self, time: int) -> None:
        self.clock.set("tell", end_of_quiet_hours(time, self.preferences.value))


def communication(member: str, channel: Channel, ranked: list[Ranked]) -> Communication:
    """What a member is told of these events, the most relevant first."""
    events = [one.candidate.event for one in ranked]
    ids = [event.id for event in events]
    counts = Counter(event.kind for event in events)
    text = ", ".join(f"{count} of kind {kind}" for kind, count in counts.items())
    return Communication(
        id=sha256("\0".join([member, *ids]).encode()).hexdigest()[:32],
        member=member,
        channel=channel,
        text=ranked[0].candidate.item.title if len(ranked) == 1 else text,
        events=ids,
        urgent=events[0].urgent,
    )
