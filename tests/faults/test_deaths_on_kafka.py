"""Runs on a real broker that are killed at any point, and then run to their end, have lost nothing; under exactly_once
nothing is repeated either."""

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from engines.comparing import assert_same
from engines.targets import PATIENT
from faults.deaths import Run, Stage, assert_nothing_is_missing, stage
from faults.mortal import points
from fluvial.planner.settings import Guarantee
from kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

KILLS = 10
"""Kills of one example; with 5 examples there are 50."""


class Kill(NamedTuple):
    """At which call of a point a container dies, and whether it had lost its state before."""

    point: str
    call: int
    container: int
    loses: bool


def kills(pipeline: str, guarantee: Guarantee, containers: int) -> st.SearchStrategy[list[Kill]]:
    point = st.sampled_from(points(pipeline, guarantee))
    one = st.builds(Kill, point, st.integers(0, 9), st.integers(0, containers - 1), st.booleans())
    return st.lists(one, min_size=KILLS, max_size=KILLS)


def endure(on: Stage, containers: int, deaths: Sequence[Kill]) -> None:
    """For each kill, some more input: the container that is to die dies of it, while the others live on. Then all are
    taken away, and the input is run to its end."""
    living: dict[int, Run] = {}
    for kill in deaths:
        on.feed()
        if kill.container in living:
            living.pop(kill.container).kill()
        order = replace(on.order(kill.container, containers), point=kill.point, call=kill.call)
        dying = on.start(order, anew=kill.loses)
        for number in {*range(containers)} - {kill.container, *living}:
            living[number] = on.start(on.order(number, containers))
        assert dying.wait() == -9, dying.errors
        assert not [run.errors for run in living.values() if run.process.poll() is not None]
    for run in living.values():
        run.kill()
    on.finish(containers)


def check(broker: Broker, pipeline: str, guarantee: Guarantee, containers: int, deaths: Sequence[Kill]) -> None:
    with stage(broker, pipeline, guarantee) as on:
        endure(on, containers, deaths)
        print(dict(on.ended))
        if guarantee == "exactly_once":
            assert_same(on.outputs(), on.expected())
        else:
            assert_nothing_is_missing(on.outputs(), on.expected())


CHOSEN: Sequence[tuple[str, Guarantee, int, list[Kill]]] = (
    (
        "sessions",
        "exactly_once",
        1,
        [
            Kill("after ChangelogCommit._produce_changes", 4, 0, False),
            Kill("before ChangelogCommit._write_stores", 2, 0, False),
            Kill("during restore.replay", 0, 0, True),
            Kill("before KafkaRecordProducer.commit", 3, 0, False),
        ],
    ),
    (
        "sessions",
        "at_least_once",
        2,
        [
            Kill("before visitor_sessions.parse_access_log", 7, 0, False),
            Kill("after ChangelogCommit._write_stores", 3, 1, False),
            Kill("after RocksStore.write", 1, 0, True),
        ],
    ),
    (
        "lookups",
        "exactly_once",
        2,
        [Kill("before mortal.answer", 6, 1, False), Kill("after KafkaRecordProducer.flush", 2, 0, False)],
    ),
    (
        "lookups",
        "at_least_once",
        1,
        [
            Kill("after KafkaRecordProducer.send", 9, 0, False),
            Kill("before ChangelogCommit._send_checkpoints", 3, 0, False),
        ],
    ),
)


@pytest.mark.parametrize(
    ("pipeline", "guarantee", "containers", "deaths"),
    [*CHOSEN[::2], *(pytest.param(*chosen, marks=pytest.mark.long) for chosen in CHOSEN[1::2])],
)
def test_nothing_is_lost_at_points_of_each_kind(
    broker: Broker, pipeline: str, guarantee: Guarantee, containers: int, deaths: list[Kill]
) -> None:
    check(broker, pipeline, guarantee, containers, deaths)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("containers", [1, 2])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("pipeline", ["sessions", "lookups"])
def test_nothing_is_lost_wherever_a_run_is_killed(
    broker: Broker, pipeline: str, guarantee: Guarantee, containers: int
) -> None:
    # Without shrinking, which takes hours; a falsifying example names its kills, and can be put above.
    @settings(
        max_examples=5,
        deadline=None,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        suppress_health_check=PATIENT,
    )
    @given(kills(pipeline, guarantee, containers))
    def examples(deaths: list[Kill]) -> None:
        check(broker, pipeline, guarantee, containers, deaths)

    examples()
