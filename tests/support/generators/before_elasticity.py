"""A pipeline with state of each kind, and its input in portions, for what was kept before tasks could be split by key:
see `kept_before_elasticity`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from engines.targets import append
from fluvial.dsl import (
    ClockTimers,
    Context,
    KeyedProcessor,
    ListState,
    MapState,
    Message,
    Pipeline,
    Timer,
    ValueState,
    after,
    after_count,
    any_of,
    collect,
    count,
    dead_letter,
    repeat,
    session,
    tumbling,
)
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime.systems import System
from fluvial.runtime.systems.partitioner import partition_for

KINDS: Mapping[str, Guarantee] = {
    "log": "at_least_once",
    "changelogs-at-least-once": "at_least_once",
    "changelogs-exactly-once": "exactly_once",
}
"""What is kept where, and under which guarantee: on the log both keep the same."""
PARTITIONS = 2
PORTIONS = 5
USERS = tuple(f"user{number}" for number in range(12))
MINUTE = 60_000
BEGIN = 1_700_000_000_000 // (60 * MINUTE) * 60 * MINUTE
FAR_AWAY = 4_000_000_000_000
"""A time by the clock that no test lives to see, in ms since epoch."""
LONG = ["a word" * 200] * 40
"""Words that make a value so large that it is stored in chunks."""


class Click(msgspec.Struct):
    user: str
    page: str
    number: int
    belated: bool = False


class Streak(KeyedProcessor[str, Click, str]):
    """Counts the clicks of a user, and tells of a pause of eight minutes."""

    clicks = ValueState(int, 0)
    pages = MapState(str, int)
    numbers = ListState(int)
    last = ValueState(str, ttl=timedelta(minutes=20))
    words = ValueState(list[str])

    def on_message(self, message: Message[Click], context: Context[str]) -> Iterable[str]:
        click = message.value
        self.clicks.value += 1
        self.pages[click.page] = self.pages.get(click.page, 0) + 1
        self.numbers.append(click.number)
        before, self.last.value = self.last.value, click.page
        if click.user == USERS[0]:
            self.words.value = [*(self.words.value or LONG), click.page]
        context.timers.set("pause", message.timestamp + 8 * MINUTE)
        return [f"{context.key} {self.clicks.value} {self.pages[click.page]} {sum(self.numbers)} {before}"]

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:
        words = "" if self.words.value is None else f" {len(self.words.value)}"
        return [f"{context.key} pauses at {timer.time} after {self.clicks.value}{words}"]


class Review(KeyedProcessor[str, Click, str]):
    """Tells by the clock what a user has clicked."""

    numbers = ListState(int)
    clock = ClockTimers()

    def on_message(self, message: Message[Click], context: Context[str]) -> None:
        self.numbers.append(message.value.number)
        self.clock.set(f"review of {context.key}", FAR_AWAY)

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:
        return [f"{context.key} {timer.name} {list(self.numbers)}"]


def pipeline_before(*, whole: bool = True) -> Pipeline:
    """Windows, sessions and triggers with lateness, a deduplication, processors, joins, tables, two borders. If it is
    not `whole`, without what the oracle does not know: timers by the clock, and changes of joined tables."""
    pipeline = Pipeline("kept", on_error=dead_letter())
    clicks = pipeline.stream("clicks", key=str, value=Click, out_of_order=timedelta(minutes=1))
    users, towns = (pipeline.table(name, key=str, value=str) for name in ("users", "towns"))
    once = clicks.deduplicate(timedelta(hours=1), by=_number, by_type=int, id="once")
    late = timedelta(minutes=30)
    visits = once.map(_number).window(session(timedelta(minutes=5)), collect(), lateness=late, id="visits")
    visits.map(lambda pane: f"{pane.kind} {pane.key} {sorted(pane.value)}").send_to("visits", value=str)
    spans = once.window(tumbling(timedelta(minutes=20)), count(), lateness=late, id="spans")
    spans.map(_shown).send_to("spans", value=str)
    often = repeat(any_of(after_count(3), after(first=timedelta(minutes=2))))
    early = once.window(
        tumbling(timedelta(hours=1)), count(), lateness=late, trigger=often, accumulate=True, id="early"
    )
    early.map(_shown).send_to("early", value=str)
    once.process(Streak(), id="streak").send_to("streaks", value=str)
    if whole:
        once.process(Review(), id="review").send_to("reviews", value=str)
        users.join(towns, _living, id="living").changes().send_to("living")
    once.join(users, lambda click, name: f"{name} {click.page}", id="named").send_to("named", value=str)
    once.map(_sixtieth).send_to("sixtieths", value=float)
    orders, payments = (pipeline.stream(name, key=str, value=int) for name in ("orders", "payments"))
    paid = orders.join(payments, lambda order, paid: f"{order} {paid}", within=timedelta(minutes=10), id="paid")
    paid.send_to("paid", value=str)
    pages = once.filter(_in_time).partition_by(_page, id="by-page", key_type=str)
    pages.window(tumbling(timedelta(minutes=20)), count(), id="pages").map(_shown).send_to("pages", value=str)
    views = pipeline.stream("views", value=str).partition_by(str, id="by-view", key_type=str)
    views.window(session(timedelta(minutes=5)), count(), id="views").map(_shown).send_to("seen", value=str)
    return pipeline


def _number(click: Click) -> int:
    return click.number


def _page(click: Click) -> str:
    return click.page


def _in_time(click: Click) -> bool:
    return not click.belated


def _living(name: str, town: str) -> str:
    return f"{name} in {town}"


def _sixtieth(click: Click) -> float:
    return 60 / (click.number % 7)


def _shown(pane: Any) -> str:
    return f"{pane.kind} {pane.key} {pane.window.start} {pane.value}"


TABLES = ("users", "towns")
STREAM_PARTITIONS = [
    (stream, number) for stream in (*TABLES, "clicks", "orders", "payments", "views") for number in range(PARTITIONS)
]
"""The partitions of the inputs. A stream that has no keys has its messages in turn."""


def portion(number: int) -> Mapping[tuple[str, int], list[Record]]:
    """A quarter of an hour of input. Rows of later portions are of users that have none before: so it is no matter how
    far clicks were read when they came."""
    rows: dict[str, list[tuple[str | None, bytes, int]]] = {
        "clicks": [*_clicks(number)],
        "views": [(None, f"/{n % 3}".encode(), _time(number, n, 60)) for n in range(30)],
        "orders": [(USERS[n % 12], b"%d" % (100 * number + n), _time(number, n, 24)) for n in range(20)],
        "payments": [(USERS[n % 12], b"%d" % n, _time(number, n, 24)) for n in range(0, 20, 2)],
        "users": [(user, user.title().encode(), BEGIN) for user in _registered(number)],
        "towns": [(user, b"Rome", BEGIN) for user in _registered(number - 1)[::2]],
    }
    found: dict[tuple[str, int], list[Record]] = {partition: [] for partition in STREAM_PARTITIONS}
    for stream, messages in rows.items():
        for n, (user, value, time) in enumerate(messages):
            key = None if user is None else user.encode()
            partition = n % PARTITIONS if key is None else partition_for(key, PARTITIONS)
            found[stream, partition].append((key, value, time, ()))
    return found


def _registered(number: int) -> Sequence[str]:
    """The users of whom a portion has rows."""
    if number <= 0:
        return USERS[:9] if number == 0 else ()
    return [f"guest{number}-{n}" for n in range(4)]


def _time(number: int, n: int, steps: int) -> int:
    """The time of the nth message of a portion: after `steps` messages it is over."""
    return BEGIN + number * 15 * MINUTE + n * 15 * MINUTE // steps


def _clicks(number: int) -> Iterator[tuple[str, bytes, int]]:
    """Clicks, of which some are a little out of order, some much too late, some come twice, and some are no clicks."""
    for n in range(40):
        user, time = USERS[(n * 5 + n // 7) % 12], _time(number, n, 40)
        click = Click(user, f"/{n % 4}", 100 * number + n)
        yield user, msgspec.json.encode(click), time - (n % 3) * 20_000
        if n % 11 == 0:
            yield user, msgspec.json.encode(click), time
        if n % 13 == 0:
            late = Click(user, "/late", 10_000 + 100 * number + n, belated=True)
            yield user, msgspec.json.encode(late), time - (7 + n % 53) * MINUTE
        if n % 19 == 0:
            yield user, b"no click %d" % n, time - MINUTE


def feed(system: System, number: int) -> None:
    """Write a portion of the input."""
    for (stream, partition), records in portion(number).items():
        if partition == 0:
            system.admin().create(stream, PARTITIONS)
        append(system, stream, partition, records)


def settings_of(kind: str, elasticity: int | None = None) -> Settings:
    """The settings of a run; the version before tasks could be split has no `elasticity`. On the log it is that of some
    stages alone, since each task has a store to open. A run commits where it has nothing else to do: what is behind a
    border comes in the same pieces on each machine."""
    seldom = timedelta(hours=1)
    made = Settings(guarantee=KINDS[kind], intermediate_partitions=PARTITIONS, commit_interval=seldom)
    if elasticity is None:
        return made
    split: Any = elasticity if kind != "log" else dict.fromkeys(("clicks", "kept-by-page", "views"), elasticity)
    return replace(made, elasticity=split)
