"""Whatever becomes of the stages of a pipeline, its operators count on where they were, and no crash doubles or loses
anything."""

from collections import Counter as Tally
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.sending import FOREVER, Fate, Killed, ProducingSystem, stores_of
from engines.targets import PATIENT
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem, System
from generators.how_many import examples
from generators.layouts import KEYS, SOURCES, Counted, Layout, add_messages, build, counts, layouts, mortal

FEW = settings(max_examples=examples(40, least=4), deadline=None, suppress_health_check=PATIENT)
COUNTERS = ("n-0", "n-1", "n-2")
ANYWHERE = {id: [Counted(source, border) for source in SOURCES for border in (None, "x", "y")] for id in COUNTERS}
AT_HOME = {
    id: [Counted(source, border) for border in (None, "x")] for id, source in zip(COUNTERS, SOURCES, strict=True)
}
KILL = st.integers(0, 25)


class Expected:
    """What counters count: each reads what its source has got since somebody has last read it."""

    def __init__(self) -> None:
        self._written = 0
        self._read: Tally[str] = Tally()
        self.counted: Tally[str] = Tally()

    def write(self) -> None:
        self._written += 1

    def run(self, layout: Layout) -> None:
        for id, where in layout.counters:
            self.counted[id] += self._written - self._read[where.source]
        self._read.update({source: self._written - self._read[source] for source in layout.reads})


def assert_counted(system: System, numbers: "Tally[str]") -> None:
    for id in COUNTERS:
        expected = {key: [*range(1, numbers[id] + 1)] for key in KEYS} if numbers[id] else {}
        assert counts(system, id) == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["log", "sent"])
def test_operators_come_go_and_change_places(kind: str, tmp_path: Path) -> None:
    folders = count()

    @FEW
    @given(st.lists(st.tuples(layouts(ANYWHERE, optional=True), KILL | st.none()), min_size=2, max_size=6))
    def check(steps: list[tuple[Layout, int | None]]) -> None:
        system: System = LogSystem(tmp_path / str(next(folders)), fsync=False) if kind == "log" else ProducingSystem()
        expected = Expected()
        for time, (layout, kill) in enumerate(steps):
            add_messages(system, time)
            expected.write()
            calls = FOREVER if kill is None or kind == "sent" else kill
            if not run_until_killed(layout, system, calls, moves_only=True):
                expected.run(layout)
            assert_counted(system, expected.counted)

    check()


@pytest.mark.slow
def test_wherever_a_run_dies_nothing_is_counted_twice_or_left_out(tmp_path: Path) -> None:
    folders = count()

    @FEW
    @given(st.lists(st.tuples(layouts(AT_HOME, optional=False), KILL), min_size=1, max_size=6))
    def check(steps: list[tuple[Layout, int]]) -> None:
        system = LogSystem(tmp_path / str(next(folders)), fsync=False)
        for time, (layout, kill) in enumerate(steps):
            add_messages(system, time)
            # What lies between stages is read by a pipeline that has them.
            if run_until_killed(layout, system, kill, moves_only=False) and layout.borders:
                run_to_end(layout, system)
        run_to_end(Layout(SOURCES, tuple(zip(COUNTERS, map(Counted, SOURCES), strict=True))), system)
        assert_counted(system, Tally(dict.fromkeys(COUNTERS, len(steps))))

    check()


def run_until_killed(layout: Layout, system: System, calls: int, *, moves_only: bool) -> bool:
    """Whether the run died after so many calls."""
    fate = Fate()
    fate.left = calls
    with mortal(fate, moves_only=moves_only), suppress(Killed):
        run_to_end(layout, system)
        return False
    return True


def run_to_end(layout: Layout, system: System) -> None:
    with stores_of(system):
        run(build(layout), system=system, until="end")
