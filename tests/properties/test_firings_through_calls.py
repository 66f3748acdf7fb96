"""Firings of many panes go through calls that take random times: as many at once as may be, each pane once in spite of
crashes, and messages wait for them, or do not, as the window says. The oracle counts in a loop."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from hypothesis import given, settings
from hypothesis import strategies as st

from engines.targets import PATIENT
from fluvial.dsl import Pane, Pipeline, count, hopping, session, skip, tumbling
from fluvial.planner import Settings
from fluvial.runtime.testing import PipelineDriver
from generators.how_many import examples

MANY = settings(max_examples=examples(60), deadline=None, suppress_health_check=PATIENT)
MINUTE = timedelta(minutes=1)
Order = Literal["key", "input", "none"]
ASSIGNERS: dict[str, Callable[[], Any]] = {
    "tumbling": lambda: tumbling(MINUTE),
    "hopping": lambda: hopping(2 * MINUTE, every=MINUTE),
    "session": lambda: session(timedelta(seconds=20)),
}


@dataclass
class Seen:
    """What happened: calls at once, panes whose calls have ended, and messages that came before those behind them."""

    running: int = 0
    most: int = 0
    ended: set[tuple[int, int]] = field(default_factory=set)
    early: int = 0


@dataclass(frozen=True)
class Case:
    """Messages as (key, minute) in batches, `waits` of calls in tenths of a second by turns, -1 for one that fails, and
    `acts` between the batches: how long the clock goes on, in tenths, and whether the task dies then."""

    assigner: str
    exclusive: bool
    order: Order
    most: int
    waits: tuple[int, ...]
    batches: tuple[tuple[tuple[int, int], ...], ...]
    acts: tuple[tuple[int, bool], ...]
    seen: Seen = field(default_factory=Seen, compare=False, repr=False)


def case_of(minutes: list[list[int]], **options: Any) -> Case:
    """Each batch is of one minute, so that no message is late."""
    batches = tuple(tuple((key, minute) for key in keys) for minute, keys in enumerate(minutes))
    return Case(batches=batches, **options)


CASES = st.builds(
    case_of,
    st.lists(st.lists(st.integers(0, 12), min_size=1, max_size=16), min_size=2, max_size=5),
    assigner=st.sampled_from([*ASSIGNERS]),
    exclusive=st.booleans(),
    order=st.sampled_from(["key", "input", "none"]),
    most=st.integers(1, 4),
    waits=st.lists(st.integers(-1, 12), min_size=1, max_size=7).map(tuple),
    acts=st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=5, max_size=5).map(tuple),
)


def pipeline_of(case: Case) -> Pipeline:
    seen, pipeline = case.seen, Pipeline("fired", on_error=skip())

    async def call(pane: Pane[str, int]) -> list[str]:
        number = hash((pane.window.start, int(pane.key))) % len(case.waits)
        seen.running += 1
        seen.most = max(seen.most, seen.running)
        try:
            await asyncio.sleep(max(0, case.waits[number]) / 10)
        finally:
            seen.running -= 1
            seen.ended.add((int(pane.key), pane.window.start))
        if case.waits[number] < 0:
            raise OSError("down")
        return [f"{pane.key} {pane.window.start} {pane.value}"]

    def noted(value: int) -> int:
        minute, number = divmod(value, 100)
        # The first message of a minute makes windows fire, and so those behind it wait.
        seen.early += number > 0 and not fired_before(case, minute) <= seen.ended
        return value

    messages = pipeline.stream("in", key=str, value=int)
    messages.map(noted).send_to("seen", value=int)
    panes = messages.window(ASSIGNERS[case.assigner](), count(), id="w", exclusive=case.exclusive)
    panes.async_flat_map(call, id="call", max_in_flight=case.most, order=case.order).send_to("out")
    return pipeline


def fired_before(case: Case, minute: int) -> set[tuple[int, int]]:
    """The key and the start of each pane that fires before the second message of a minute is processed."""
    span = 2 if case.assigner == "hopping" else 1
    return {(key, start) for key, start in panes_of(case) if start + 60_000 * span <= 60_000 * minute}


def panes_of(case: Case) -> Counter[tuple[int, int]]:
    """What is counted for each key and start. All messages of a minute have its beginning as their time."""
    counts: Counter[tuple[int, int]] = Counter()
    for key, minute in (message for batch in case.batches for message in batch):
        start = 60_000 * minute
        for first in (start - 60_000, start) if case.assigner == "hopping" else (start,):
            counts[key, first] += 1
    return counts


def expected(case: Case) -> Counter[str]:
    """Each pane once, but those whose call fails."""
    counts = panes_of(case)
    waits = {pane: case.waits[hash((pane[1], pane[0])) % len(case.waits)] for pane in counts}
    return Counter(f"{key} {start} {number}" for (key, start), number in counts.items() if waits[key, start] >= 0)


def run(case: Case, *, dies: bool) -> tuple[Counter[str], list[str]]:
    kept = Settings(guarantee="exactly_once", commit_interval=timedelta(seconds=1), cached_entries=3)
    with PipelineDriver(pipeline_of(case), settings=kept, commits="timed") as driver:
        for batch, (tenths, death) in zip(case.batches, case.acts, strict=False):
            rows = enumerate(batch)
            records = [(b"%d" % key, b"%d" % (100 * minute + row), 60_000 * minute, ()) for row, (key, minute) in rows]
            driver.records.send("in", records, partition=0)
            driver.advance(timedelta(seconds=tenths / 10))
            if dies and death:
                driver.crash()
                case.seen.running = 0
                driver.restart()
        driver.end()
        out = [message.value for message in driver.read("out")]
        assert len(driver.read("seen")) == sum(map(len, case.batches))
    return Counter(out), out


@MANY
@given(CASES)
def test_each_pane_is_called_for_once_and_messages_wait_or_do_not(case: Case) -> None:
    found, out = run(case, dies=False)
    assert found == expected(case)
    assert case.seen.most <= case.most
    if case.exclusive:
        assert case.seen.early == 0
    if case.order == "key":
        for key in range(13):
            starts = [int(start) for name, start, _ in map(str.split, out) if name == f"{key}"]
            assert starts == sorted(starts)


@MANY
@given(CASES)
def test_a_death_in_the_middle_neither_loses_nor_doubles_a_pane(case: Case) -> None:
    found, _ = run(case, dies=True)
    assert found == expected(case)
