"""A broker that stops in the middle of a run: nothing is lost where it comes back; if it does not, the run says so."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from broker import Broker
from broker_jars import lacking
from comparing import assert_same
from deaths import PATIENCE, Stage, assert_nothing_is_missing, stage
from fluvial.planner.settings import Guarantee

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

MANY = 600


@pytest.fixture
def mortal_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of the test's own, which it may stop."""
    if reason := lacking():
        pytest.skip(reason)
    with Broker(tmp_path) as broker:
        yield broker


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def outlive(on: Stage, stop: Callable[[], None], seconds: float) -> None:
    """Take the broker away for so long in the middle of a run, which goes on as if nothing had been."""
    on.feed(MANY)
    run = on.start(on.order(until="end"))
    wait_for(lambda: any(on.outputs().values()))
    stop()
    assert run.process.poll() is None, "the run was over too soon"
    time.sleep(seconds)
    on.broker.start()
    assert run.wait() == 0, run.errors
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
def test_a_broker_that_is_away_for_20_s_costs_time_alone(
    mortal_broker: Broker, pipeline: str, guarantee: Guarantee
) -> None:
    with stage(mortal_broker, pipeline, guarantee) as on:
        outlive(on, mortal_broker.stop, 20)


@pytest.mark.parametrize("guarantee", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.long)])
def test_a_broker_that_does_not_come_back_is_given_up_by_its_address(
    mortal_broker: Broker, guarantee: Guarantee
) -> None:
    with stage(mortal_broker, "sessions", guarantee) as on:
        on.feed(MANY)
        run = on.start(replace(on.order(), give_up_after=4.0))
        wait_for(lambda: any(on.outputs().values()))
        mortal_broker.kill()

        assert run.wait() == 4

        assert f"kafka://{mortal_broker.address} is out of reach" in run.errors, run.errors
        assert "Traceback" not in run.errors


def test_a_call_that_never_returns_is_a_stall(broker: Broker) -> None:
    with stage(broker, "stuck", "at_least_once") as on:
        on.feed()
        run = on.start(replace(on.order(until="end"), stall_timeout=1.0))

        assert run.wait() == 6

        assert "nothing has moved for 1 s" in run.errors
        assert "task " in run.errors
