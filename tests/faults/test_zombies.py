"""From two containers to one, with the second still alive as a zombie: it is shut out, and adds nothing."""

import os
import signal

import pytest
from msgspec.structs import replace

from broker import Broker
from comparing import assert_same
from deaths import Run, stage
from mortal import points

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

STOPPED = [
    ("sessions", "after KafkaSender.flush"),  # its transaction is open, and is dropped by who comes after it
    pytest.param("sessions", "after SentCommits._keep", marks=pytest.mark.long),
    pytest.param("lookups", "before mortal.answer", marks=pytest.mark.long),
]


def wait_until_stopped(run: Run) -> None:
    os.waitid(os.P_PID, run.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert run.process.poll() is None, run.errors


@pytest.mark.parametrize(("pipeline", "point"), STOPPED)
def test_a_zombie_is_shut_out(broker: Broker, pipeline: str, point: str) -> None:
    check(broker, pipeline, point, 4)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("pipeline", ["sessions", "lookups"])
def test_a_zombie_is_shut_out_wherever_it_stood_still(broker: Broker, pipeline: str) -> None:
    for point in points(pipeline, "exactly_once"):
        check(broker, pipeline, point, 1)


def check(broker: Broker, pipeline: str, point: str, call: int) -> None:
    with stage(broker, pipeline, "exactly_once") as on:
        on.feed()
        first = on.start(on.order(0, 2))
        zombie = on.start(replace(on.order(1, 2), point=point, call=call, signal=signal.SIGSTOP))
        wait_until_stopped(zombie)
        on.feed()
        first.process.terminate()
        assert first.wait() in (0, -signal.SIGTERM), first.errors  # the latter where it had not begun
        on.finish(1)
        assert_same(on.outputs(), on.expected())

        on.feed()
        zombie.process.send_signal(signal.SIGCONT)
        assert zombie.wait() == 4
        assert "taken over" in zombie.errors or "lost its place" in zombie.errors, zombie.errors
        on.portions.pop()
        assert_same(on.outputs(), on.expected())
