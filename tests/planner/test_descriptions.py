"""Options of operators as people read them."""

from datetime import timedelta

import pytest

from fluvial.dsl import (
    Adaptive,
    Batch,
    Breaker,
    Cache,
    Limit,
    ListState,
    MapState,
    Pipeline,
    Retry,
    Trigger,
    ValueState,
    after,
    after_count,
    any_of,
    hopping,
    repeat,
    session,
    tumbling,
    unbounded,
)
from fluvial.dsl.keyed_state import State
from fluvial.dsl.windows.assigners import Assigner
from fluvial.planner.descriptions import assigner_text, duration, remote_options, state_text, trigger_text

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1500, "1.5 s"),
        (1501, "1501 ms"),
        (60_000, "1 min"),
        (5_400_000, "1.5 h"),
        (172_800_000, "2 d"),
        (61_001, "0:01:01.001000"),
    ],
)
def test_a_duration_is_written_in_the_largest_unit_that_is_exact(ms: int, text: str) -> None:
    assert duration(ms) == text


@pytest.mark.parametrize(
    ("assigner", "text"),
    [
        (tumbling(60 * SECOND), "tumbling 1 min"),
        (hopping(60 * SECOND, every=10 * SECOND), "hopping 1 min, every 10 s"),
        (session(1800 * SECOND), "session 30 min"),
        (unbounded(), "unbounded"),
    ],
)
def test_windows_are_shown_with_their_span(assigner: Assigner, text: str) -> None:
    assert assigner_text(assigner) == text


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        (after_count(3), "once after 3 message(s)"),
        (repeat(after(last=SECOND)), "each time after 1 s from the last"),
        (any_of(after_count(3), after(first=2 * SECOND)), "once after 3 message(s) or 2 s from the first"),
    ],
)
def test_a_trigger_is_shown_with_all_its_conditions(trigger: Trigger, text: str) -> None:
    assert trigger_text(trigger) == text


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (ValueState(int), "int"),
        (ListState(str), "list[str]"),
        (MapState(str, list[int]), "map[str, list[int]]"),
    ],
)
def test_a_state_is_shown_by_its_form_and_types(state: State, text: str) -> None:
    assert state_text(state) == text


def test_a_remote_table_is_shown_with_its_limits() -> None:
    async def read(_: object) -> dict[str, str]:
        return {}

    table = Pipeline("p").remote_table(
        "users",
        read=read,
        max_in_flight=17,
        timeout=2 * SECOND,
        retry=Retry(attempts=4),
        cache=Cache(size=10, ttl=SECOND),
        batch=Batch(size=5, delay=SECOND),
        writes_per_second=2.5,
        limit=Limit("service", calls=9),
        breaker=Breaker("other"),
        concurrency=Adaptive(),
    )
    assert remote_options(table) == {
        "table": "users",
        "max_in_flight": "17",
        "timeout": "2 s",
        "attempts": "4",
        "batch": "5 keys, 1 s",
        "cache": "10 rows",
        "writes_per_second": "2.5",
        "limit": "service",
        "breaker": "other",
        "concurrency": "1 to 3 in each process, as the service takes",
    }
