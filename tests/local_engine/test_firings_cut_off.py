"""A run that dies in the middle of a firing, between two commits, and what a later run makes of what had not fired."""

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest

from engines.targets import append, contents
from fluvial.dsl import MessageError, Pane, Pipeline, Window, after, after_count, count, hopping, session, tumbling
from fluvial.dsl.message import Record
from fluvial.dsl.windows.assigners import Assigner
from fluvial.dsl.windows.triggers import Trigger
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.kernel.firing_pauses import FIRST_PIECE
from fluvial.runtime.systems import LogSystem

SECOND = timedelta(seconds=1)
KEYS = 10 * FIRST_PIECE
BEFORE, BEHIND = b"%05d" % 1, b"%05d" % (KEYS - 1)
"""A key that has fired as the run dies, and one that has not."""
Outcome = tuple[Counter[bytes], int]


def dying_at(number: int) -> Callable[[Pane[str, int]], list[object]]:
    told = 0

    def tell(pane: Pane[str, int]) -> list[object]:
        nonlocal told
        told += 1
        if told == number:
            raise ValueError("dead")
        return [pane.key, pane.value]

    return tell


@pytest.mark.parametrize("accumulate", [True, False], ids=["accumulating", "discarding"])
@pytest.mark.parametrize("lateness", [timedelta(0), timedelta(hours=1)], ids=["exact", "lenient"])
@pytest.mark.parametrize(
    ("by", "trigger"),
    [
        (tumbling(10 * SECOND), None),
        (hopping(10 * SECOND, 10 * SECOND), None),
        (session(9 * SECOND), None),
        (tumbling(10 * SECOND), after_count(9)),
        (session(9 * SECOND), after_count(9)),
    ],
    ids=["tumbling", "hopping", "sessions", "triggered", "triggered sessions"],
)
def test_an_input_that_was_added_since_brings_messages_to_windows_that_had_fired_in_part(
    by: Assigner, trigger: Trigger | None, lateness: timedelta, accumulate: bool, tmp_path: Path
) -> None:
    def counting(*streams: str, dies_at: int = 0) -> Pipeline:
        pipeline = Pipeline("p")
        first, *others = [pipeline.stream(name, key=str, value=int) for name in streams]
        merged = first.merge(*others) if others else first
        panes = merged.window(by, count(), id="w", trigger=trigger, lateness=lateness, accumulate=accumulate)
        panes.map(dying_at(dies_at)).send_to("out")
        return pipeline

    system, settings = LogSystem(tmp_path, fsync=False), Settings(max_staged_bytes=1)
    for stream in ("a", "b"):
        system.admin().create(stream, 1)
    append(system, "a", 0, [(b"%05d" % key, b"1", 0, ()) for key in range(KEYS)] + [(b"z", b"1", 40_000, ())])
    with pytest.raises(MessageError, match="dead"):
        run(counting("a", dies_at=KEYS // 2), system=system, settings=settings, until="caught-up")
    assert FIRST_PIECE <= len(contents(system, "out")) < KEYS // 2

    append(system, "b", 0, [(BEFORE, b"1", 1, ()), (BEHIND, b"1", 1, ()), (b"z", b"1", 40_000, ())])
    run(counting("a", "b"), system=system, settings=settings, until="caught-up")
    counts = defaultdict[str, list[int]](list)
    for record in contents(system, "out"):
        key, number = json.loads(record[1] or b"")
        counts[key].append(number)
    assert counts.pop(BEHIND.decode()) == [2]
    assert counts.pop(BEFORE.decode()) == [1, 2 if accumulate else 1]
    assert set(map(tuple, counts.values())) == {(1,)}
    assert len(counts) == KEYS - 2


def told_in_two_runs(pipeline: Callable[[int], Pipeline], records: list[Record], dies_at: int, folder: Path) -> Outcome:
    """What is told where a run dies at a pane, and another goes on: how often each pane, and where the first died."""
    system, settings = LogSystem(folder, fsync=False), Settings(max_staged_bytes=1)
    system.admin().create("a", 1)
    append(system, "a", 0, records)
    with pytest.raises(MessageError, match="dead"):
        run(pipeline(dies_at), system=system, settings=settings, until="caught-up")
    before = len(contents(system, "out"))
    run(pipeline(0), system=system, settings=settings, until="caught-up")
    return Counter(record[1] or b"" for record in contents(system, "out")), before


def test_early_panes_that_are_due_as_a_window_ends_do_not_let_it_fire_again(tmp_path: Path) -> None:
    def early(dies_at: int) -> Pipeline:
        pipeline = Pipeline("p")
        words = pipeline.stream("a", key=str, value=int)
        by, first = hopping(10 * SECOND, 5 * SECOND), after(first=5 * SECOND)
        panes = words.window(by, count(), id="w", trigger=first, lateness=timedelta(hours=1))
        panes.map(dying_at(dies_at)).send_to("out", key=lambda told: str(told[0]))
        return pipeline

    records: list[Record] = [(b"%05d" % key, b"1", 5000, ()) for key in range(KEYS)]
    panes, before = told_in_two_runs(early, [*records, (b"z", b"1", 10_000, ())], 2 * KEYS - 1, tmp_path)
    assert before > KEYS
    assert set(panes.values()) == {2}, "one on time, and one early of the next window"
    assert len(panes) == KEYS


def test_sessions_do_not_fire_again_where_a_firing_paused_at_timers_of_sessions_that_have_grown(tmp_path: Path) -> None:
    def sessions(dies_at: int) -> Pipeline:
        pipeline = Pipeline("p")
        panes = pipeline.stream("a", key=str, value=int).window(session(9 * SECOND), count(), id="w")
        panes.map(dying_at(dies_at)).send_to("out", key=lambda told: str(told[0]))
        return pipeline

    short: list[Record] = [(b"%05d" % key, b"1", 0, ()) for key in range(6 * FIRST_PIECE)]
    grown: list[Record] = [(b"x%05d" % key, b"1", time, ()) for time in (100, 5000) for key in range(KEYS)]
    panes, before = told_in_two_runs(sessions, [*short, *grown, (b"z", b"1", 20_000, ())], len(short) + 1, tmp_path)
    assert before == len(short)
    assert set(panes.values()) == {1}
    assert len(panes) == len(short) + KEYS


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("by", [tumbling(10 * SECOND), session(9 * SECOND)], ids=["tumbling", "sessions"])
def test_panes_whose_calls_had_ended_before_a_death_are_emitted_once(
    by: Assigner, exclusive: bool, tmp_path: Path
) -> None:
    def calling(dies_at: int) -> Pipeline:
        tell = dying_at(dies_at)

        async def called(pane: Pane[str, int]) -> list[list[object]]:
            await asyncio.sleep(0.001)
            return [tell(pane)]

        pipeline = Pipeline("p")
        panes = pipeline.stream("a", key=str, value=int).window(by, count(), id="w", exclusive=exclusive)
        panes.async_flat_map(called, id="call", max_in_flight=8).send_to("out", key=lambda told: str(told[0]))
        return pipeline

    keys = 3 * FIRST_PIECE
    first: list[Record] = [(b"%05d" % key, b"1", 0, ()) for key in range(keys)]
    next_window: list[Record] = [(b"%05d" % key, b"1", 20_000, ()) for key in range(keys)]
    records = [*first, *next_window, (b"z", b"1", 60_000, ())]
    panes, before = told_in_two_runs(calling, records, keys // 2, tmp_path)
    assert 0 < before < keys // 2
    assert panes == {b'["%05d",1]' % key: 2 for key in range(keys)}


@pytest.mark.parametrize("retain", ["all", "latest"])
def test_rows_of_one_time_leave_a_join_that_was_cut_off_among_them(
    retain: Literal["all", "latest"], tmp_path: Path
) -> None:
    def leaving(dies_at: int) -> Pipeline:
        tell = dying_at(dies_at)

        def told(key: str, other: str | None) -> list[object]:
            return tell(Pane(key, Window(0, 1), 1 if other is None else 2, "on_time"))

        pipeline = Pipeline("p")
        rows = pipeline.stream("a", key=str, value=str)
        no_rows = rows.filter(lambda _: False)
        joined = rows.join(no_rows, told, id="j", within=10 * SECOND, how="left", retain=retain)
        joined.send_to("out", key=lambda told: str(told[0]))
        return pipeline

    keys = [b"%05d" % key for key in range(3 * FIRST_PIECE)]
    records: list[Record] = [*((key, key, 0, ()) for key in keys), (b"z", b"z", 60_000, ())]
    rows, before = told_in_two_runs(leaving, records, 2 * FIRST_PIECE, tmp_path)
    assert FIRST_PIECE <= before < 2 * FIRST_PIECE
    assert rows == {b'["%s",1]' % key: 1 for key in keys}
