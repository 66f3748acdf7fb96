"""Commits to a system that records are sent to: wherever a run is killed, nothing is lost, and under exactly_once
nothing is repeated; and the stores can be lost as well."""

from datetime import timedelta
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same, counted
from engines.sending import FOREVER, Killed, ProducingSystem, stores_of
from engines.targets import PATIENT, outputs_of, write
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import run
from generators.building import build
from generators.cases import Case, cases, expected
from generators.described_steps import Border, Source, WindowStep
from generators.descriptions import Description
from generators.how_many import examples

OFTEN = timedelta(0)
MANY = settings(max_examples=examples(80), deadline=None, suppress_health_check=PATIENT)


def run_to_end(case: Case, system: ProducingSystem, guarantee: Guarantee) -> None:
    """Run with a commit after every turn of the loop, in stores of the system, with room for little in memory."""
    configured = Settings(guarantee=guarantee, commit_interval=OFTEN, cached_entries=2)
    with stores_of(system):
        run(build(case.description), system=system, until="end", settings=configured)


class Kill(NamedTuple):
    """After how many calls a run dies, which reads so many messages at once, and whether its stores are lost."""

    calls: int
    batch: int
    loses: bool


def run_with_kills(case: Case, guarantee: Guarantee, kills: list[Kill]) -> ProducingSystem:
    """Begin again after each kill, with or without the stores; the last run reaches the end."""
    system = ProducingSystem()
    write(system, case.inputs)
    for calls, batch, loses in kills:
        system.fate.left, system.batch = calls, batch
        try:
            run_to_end(case, system, guarantee)
        except Killed:
            if loses:
                system.stores.clear()
    system.fate.left = FOREVER
    run_to_end(case, system, guarantee)
    return system


KILLS = st.lists(st.builds(Kill, st.integers(0, 60), st.integers(1, 6), st.booleans()), min_size=1, max_size=5)


@pytest.mark.slow
def test_under_exactly_once_readers_see_what_the_oracle_writes_wherever_a_run_is_killed() -> None:
    @MANY
    @given(cases("on_time"), KILLS)
    def check(case: Case, kills: list[Kill]) -> None:
        system = run_with_kills(case, "exactly_once", kills)
        assert_same(outputs_of(system, {*case.inputs}, "case"), expected(case))

    check()


@pytest.mark.slow
@pytest.mark.parametrize("second", [10, *(pytest.param(second, marks=pytest.mark.long) for second in range(11, 14))])
def test_no_run_begins_at_what_has_been_removed_from_between_its_stages(second: int) -> None:
    """Killed between a store and its checkpoint, and once more, store and all, before another checkpoint."""
    steps = (Border(0, "str", "word", 0), WindowStep(1, "tumbling", 10, "count"))
    records = [(None, b'{"k":"a","n":0,"at":%d}' % at, at, ()) for at in range(8)]
    case = Case(Description((Source("a"),), steps), {"a": [records]}, {"a": 1})
    for first in range(70):
        run_with_kills(case, "at_least_once", [Kill(first, 2, loses=False), Kill(second, 2, loses=True)])


@pytest.mark.slow
def test_under_at_least_once_nothing_is_missing_and_all_that_is_unexpected_are_repeats() -> None:
    # Behind a border repeats are counted, so that other panes come of them.
    @MANY
    @given(cases("on_time", max_borders=0), KILLS)
    def check(case: Case, kills: list[Kill]) -> None:
        system = run_with_kills(case, "at_least_once", kills)
        actual, wanted = outputs_of(system, {*case.inputs}, "case"), expected(case)
        for stream, records in wanted.items():
            found, needed = counted(stream, actual.get(stream, ())), counted(stream, records)
            assert not needed - found
            assert {*found} == {*needed}

    check()
