"""A broker that stops in the middle of a run: nothing is lost where it comes back; if it does not, the run says so."""

import time
from collections.abc import Callable, Iterator
from random import Random

import pytest
from msgspec.structs import replace

from engines.comparing import assert_same
from faults.deaths import Stage, assert_nothing_is_missing, stage
from fluvial.planner.settings import Guarantee
from kafka.broker import Broker
from kafka.broker_jars import lacking

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MANY = 300
LOAD = 30
"""Records of each partition that come between two deaths of a broker."""
SLOW_TO_START = 180.0
"""Seconds that a broker may take on a busy machine until it answers again."""


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker of these tests' own."""
    if reason := lacking():
        pytest.skip(reason)
    with Broker(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def mortal_broker(own_broker: Broker) -> Broker:
    """A broker that a test may stop, and that the one before may have stopped."""
    own_broker.come_back()
    return own_broker


def outlive(on: Stage, stop: Callable[[], None], seconds: float, *, give_up_after: float = 60.0) -> None:
    """Take the broker away for so long in the middle of a run, which goes on as if nothing had been."""
    on.feed(MANY)
    run = on.start(replace(on.order(until="end"), give_up_after=give_up_after))
    on.wait_for_output()
    stop()
    assert run.process.poll() is None, "the run was over too soon"
    time.sleep(seconds)
    on.broker.start()
    assert run.wait() == 0, run.errors
    assert_all_is_there(on)


def assert_all_is_there(on: Stage) -> None:
    """Under exactly_once, all that is expected and nothing else."""
    if on.guarantee == "exactly_once":
        assert_same(on.outputs(), on.expected())
    else:
        assert_nothing_is_missing(on.outputs(), on.expected())


@pytest.mark.parametrize(
    ("pipeline", "guarantee"),
    [("sessions", "exactly_once"), pytest.param("lookups", "at_least_once", marks=pytest.mark.long)],
)
def test_a_broker_that_crashes_and_comes_back_costs_time_alone(
    mortal_broker: Broker, pipeline: str, guarantee: Guarantee
) -> None:
    with stage(mortal_broker, pipeline, guarantee) as on:
        outlive(on, mortal_broker.kill, 2)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("pipeline", ["sessions", "lookups"])
def test_a_broker_that_is_stopped_for_60_s_costs_time_alone(
    mortal_broker: Broker, pipeline: str, guarantee: Guarantee
) -> None:
    with stage(mortal_broker, pipeline, guarantee) as on:
        outlive(on, mortal_broker.stop, 60, give_up_after=60 + SLOW_TO_START)


def outlive_all(on: Stage, kills: int) -> None:
    """Kill the broker so often while a run has something to do, at moments that differ; the run lives on."""
    moments = Random(kills)
    run = on.start(replace(on.order(), give_up_after=SLOW_TO_START))
    for _ in range(kills):
        on.feed(LOAD)
        time.sleep(moments.uniform(0, 1))
        on.broker.kill()
        on.broker.start()
        assert run.process.poll() is None, run.errors
    run.process.terminate()
    assert run.wait() == 0, run.errors
    on.finish(1)
    assert_all_is_there(on)


@pytest.mark.parametrize(
    ("pipeline", "guarantee", "kills"),
    [
        pytest.param("sessions", "at_least_once", 3, marks=pytest.mark.long),
        *(
            pytest.param(pipeline, guarantee, 100, marks=[pytest.mark.long, pytest.mark.timeout(7200)])
            for pipeline in ("sessions", "lookups")
            for guarantee in ("at_least_once", "exactly_once")
        ),
    ],
)
def test_a_broker_that_is_killed_again_and_again_costs_time_alone(
    mortal_broker: Broker, pipeline: str, guarantee: Guarantee, kills: int
) -> None:
    with stage(mortal_broker, pipeline, guarantee) as on:
        outlive_all(on, kills)


@pytest.mark.parametrize(
    ("pipeline", "guarantee", "seconds"),
    [
        ("lookups", "exactly_once", 5),
        *(
            pytest.param(pipeline, guarantee, 60, marks=[pytest.mark.long, pytest.mark.timeout(900)])
            for pipeline in ("sessions", "lookups")
            for guarantee in ("at_least_once", "exactly_once")
        ),
    ],
)
def test_a_broker_that_stands_still_costs_time_alone(
    mortal_broker: Broker, pipeline: str, guarantee: Guarantee, seconds: float
) -> None:
    """It keeps its connections and answers nobody, as a machine does that swaps, or is moved."""
    with stage(mortal_broker, pipeline, guarantee) as on:
        on.feed(MANY)
        run = on.start(replace(on.order(until="end"), give_up_after=seconds + SLOW_TO_START))
        on.wait_for_output()
        mortal_broker.pause()
        assert run.process.poll() is None, "the run was over too soon"
        time.sleep(seconds)
        mortal_broker.resume()
        assert run.wait() == 0, run.errors
        assert_all_is_there(on)


@pytest.mark.parametrize("guarantee", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.long)])
def test_a_broker_that_does_not_come_back_is_given_up_by_its_address(
    mortal_broker: Broker, guarantee: Guarantee
) -> None:
    with stage(mortal_broker, "sessions", guarantee) as on:
        on.feed(MANY)
        run = on.start(replace(on.order(), give_up_after=4.0))
        on.wait_for_output()
        mortal_broker.kill()

        assert run.wait() == 4, run.errors

        assert f"kafka://{mortal_broker.address} is out of reach" in run.errors, run.errors
        assert "Traceback" not in run.errors


def test_a_call_that_never_returns_is_a_stall(broker: Broker) -> None:
    with stage(broker, "stuck", "at_least_once") as on:
        on.feed()
        run = on.start(replace(on.order(until="end"), stall_timeout=1.0))

        assert run.wait() == 6, run.errors

        assert "nothing has moved for 1 s" in run.errors
        assert "task " in run.errors
