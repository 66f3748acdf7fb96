"""Containers that come, go and die while a pipeline runs write what one container does."""

from collections.abc import Sequence
from contextlib import closing
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same, counted
from engines.live_containers import LiveContainers, in_one_thread
from engines.sending import ProducingSystem, stores_of
from engines.targets import PATIENT, outputs_of, write
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import run
from generators.building import build
from generators.cases import Case, cases, expected
from generators.how_many import examples

MANY = settings(max_examples=examples(60), deadline=None, suppress_health_check=PATIENT)


class Act(NamedTuple):
    """What happens: a container takes turns, dies, loses its stores, is started, joins by its number alone, or is taken
    for dead; or there are to be so many, or so many key buckets."""

    kind: str
    number: int


ACTS = st.lists(
    st.one_of(
        st.builds(Act, st.just("turn"), st.integers(0, 3)),
        st.builds(Act, st.just("turn"), st.integers(0, 3)),
        st.builds(Act, st.sampled_from(["start", "join", "kill", "lose", "suspect"]), st.integers(0, 3)),
        st.builds(Act, st.just("scale"), st.integers(1, 4)),
        st.builds(Act, st.just("split"), st.sampled_from([1, 2, 4])),
    ),
    max_size=40,
)


def written(case: Case, guarantee: Guarantee, elasticity: int, acts: Sequence[Act]) -> ProducingSystem:
    """What is written by containers to which these things happen, and by a run to the end behind them."""
    system, pipeline = ProducingSystem(), build(case.description)
    write(system, case.inputs)
    configured = Settings(guarantee=guarantee, cached_entries=2, elasticity=elasticity)
    with in_one_thread(system), closing(LiveContainers(system, pipeline, 2, configured)) as containers:
        for number in range(2):
            containers.start(number)
        for kind, number in acts:
            if kind == "turn":
                containers.turn(number)
            elif kind == "start":
                if number < containers.containers:
                    containers.start(number)
            elif kind == "join":
                containers.join(number)
            elif kind == "kill":
                containers.kill(number)
            elif kind == "lose":
                containers.lose_store(number)
            elif kind == "suspect":
                containers.suspect(number)
            elif kind == "split":
                containers.scale(containers.containers, elasticity=number)
            else:
                containers.scale(number)
        containers.finish()
        after = containers.elasticity
    with stores_of(system):
        run(
            pipeline,
            system=system,
            until="end",
            settings=Settings(guarantee=guarantee, cached_entries=2, elasticity=after),
        )
    return system


@pytest.mark.slow
def test_under_exactly_once_readers_see_what_the_oracle_writes_whatever_containers_there_are() -> None:
    @MANY
    @given(cases("on_time"), st.sampled_from([1, 2]), ACTS)
    def check(case: Case, elasticity: int, acts: list[Act]) -> None:
        system = written(case, "exactly_once", elasticity, acts)
        assert_same(outputs_of(system, {*case.inputs}, "case"), expected(case))

    check()


@pytest.mark.slow
def test_under_at_least_once_containers_that_come_and_go_lose_nothing() -> None:
    # Behind a border repeats are counted, so that other panes come of them.
    @MANY
    @given(cases("on_time", max_borders=0), st.sampled_from([1, 2]), ACTS)
    def check(case: Case, elasticity: int, acts: list[Act]) -> None:
        system = written(case, "at_least_once", elasticity, acts)
        actual, wanted = outputs_of(system, {*case.inputs}, "case"), expected(case)
        for stream, records in wanted.items():
            found, needed = counted(stream, actual.get(stream, ())), counted(stream, records)
            assert not needed - found
            assert {*found} == {*needed}

    check()
