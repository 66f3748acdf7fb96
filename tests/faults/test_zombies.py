"""From two containers to one, with the second still alive as a zombie: it is shut out, and adds nothing."""

import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from engines.comparing import assert_same
from engines.targets import namespace, write
from faults.deaths import assert_nothing_is_missing, stage, wait_until_stopped
from faults.mortal import points
from fluvial.dsl import Pipeline, SystemProblem, TakenOver
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import run
from fluvial.runtime.local.coordination.membership import transactional_id
from kafka.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

STOPPED = [
    # Its transaction is open, and is dropped by who comes after it.
    ("sessions", "after KafkaRecordProducer.flush", "exactly_once"),
    ("sessions", "before ChangelogCommit._produce_changes", "at_least_once"),
    pytest.param("sessions", "after ChangelogCommit._write_stores", "exactly_once", marks=pytest.mark.long),
    pytest.param("lookups", "before mortal.answer", "exactly_once", marks=pytest.mark.long),
    pytest.param("lookups", "before KafkaRecordProducer.commit", "at_least_once", marks=pytest.mark.long),
]


@pytest.mark.parametrize(("pipeline", "point", "guarantee"), STOPPED)
def test_a_zombie_is_shut_out(broker: Broker, pipeline: str, point: str, guarantee: Guarantee) -> None:
    check(broker, pipeline, guarantee, point, 4)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("pipeline", ["sessions", "lookups"])
def test_a_zombie_is_shut_out_wherever_it_stood_still(broker: Broker, pipeline: str) -> None:
    for point in points(pipeline, "exactly_once"):
        check(broker, pipeline, "exactly_once", point, 1)


def check(broker: Broker, pipeline: str, guarantee: Guarantee, point: str, call: int) -> None:
    agree = assert_same if guarantee == "exactly_once" else assert_nothing_is_missing
    with stage(broker, pipeline, guarantee) as on:
        on.feed()
        first = on.start(on.order(0, 2))
        zombie = on.start(replace(on.order(1, 2), point=point, call=call, signal=signal.SIGSTOP))
        wait_until_stopped(zombie)
        on.feed()
        first.process.terminate()
        assert first.wait() in (0, -signal.SIGTERM), first.errors  # the latter where it had not begun
        on.finish(1)
        agree(on.outputs(), on.expected())

        on.feed()
        zombie.process.send_signal(signal.SIGCONT)
        assert zombie.wait() == 4
        assert "taken over" in zombie.errors or "lost its place" in zombie.errors, zombie.errors
        on.portions.pop()
        agree(on.outputs(), on.expected())


def test_a_container_whose_transaction_the_brokers_ended_is_not_taken_for_replaced(
    broker: Broker, tmp_path: Path
) -> None:
    """As they do where it stood still for longer than transaction.timeout.ms."""
    system = namespace(broker)
    write(system, {"in": [[(None, b"a", 0, ())]]})

    def stand_still(word: str) -> str:
        system.record_producer(transactional_id("p", 1, 0)).close()
        return word

    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).map(stand_still).send_to("out")
    settings = Settings(guarantee="exactly_once", state_dir=str(tmp_path))
    with pytest.raises(SystemProblem, match=r"has ended a transaction of '.*p-1-0' that was open for longer") as raised:
        run(pipeline, system=system, until="end", settings=settings)
    assert not isinstance(raised.value, TakenOver)  # after which no supervisor would start it again
