"""SIGTERM is heeded in time, wherever a run is."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from engines.targets import contents, write
from faults import stoppable
from faults.deaths import Stage, stage, wait_until_stopped
from faults.mortal import points
from fluvial.runtime.process.signals import ENDED
from fluvial.runtime.process.standard_streams import is_read
from fluvial.runtime.systems import LogSystem
from kafka.broker import Broker
from kafka.broker_jars import lacking
from kafka.container_runs import PATIENCE, Yard, kill, make_yard, process_of
from waiting import wait_until

pytestmark = pytest.mark.slow

SECONDS = 10.0


def stopped(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> int:
    """Ask a process to stop; its exit code, if that did not take too long."""
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    code = process.wait(PATIENCE)
    assert time.monotonic() - began < SECONDS
    return code


USUAL = ("hold", "hang", "open", "flush", "place")
"""Of each kind of place one that is stopped each time."""


@pytest.mark.parametrize(
    "place", [pytest.param(place, marks=() if place in USUAL else pytest.mark.long) for place in stoppable.PLACES]
)
def test_a_run_that_would_stay_where_it_is_is_stopped(place: str, tmp_path: Path) -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"in": [[(None, b"a", 0, ()), (None, stoppable.STUCK.encode(), 0, ()), (None, b"b", 0, ())]]})
    words = [sys.executable, stoppable.__file__, place, str(tmp_path / "log")]
    with ExitStack() as stack:
        if place == "place":
            stack.enter_context(system.claim("p", "coordinator"))
        process = stack.enter_context(
            subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        stack.callback(process.kill)
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        # A function in C, which does not look at signals, cannot be interrupted.
        codes = {"compute": ENDED, "hold": -signal.SIGKILL}
        code = stopped(process)
        assert code == codes.get(place, 0), process.communicate()[1]
        assert ("a function in C kept it from hearing" in process.communicate()[1]) == (place == "hold")
    if place in stoppable.CALLS:  # what has landed is committed
        assert [record[1] for record in contents(system, "out")] == [b"a", b"b"]


@pytest.fixture
def frozen_broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker that may be let stand still."""
    if reason := lacking():
        pytest.skip(reason)
    with Broker(tmp_path, loaded=True) as broker:
        try:
            yield broker
        finally:
            broker.resume()


CHOSEN = (
    "before KafkaRecordProducer.flush",
    "before KafkaRecordProducer.ends",
    "before KafkaRecordProducer.commit",
    "before ChangelogCommit.resume",
    "during restore.replay",
    "before Coordinator.write",
    "before visitor_sessions.parse_access_log",
)


@pytest.mark.kafka
@pytest.mark.timeout(900)
@pytest.mark.parametrize("guarantee", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.long)])
def test_a_run_stops_in_time_though_the_broker_does_not_answer(frozen_broker: Broker, guarantee: str) -> None:
    for point in CHOSEN if guarantee == "exactly_once" else CHOSEN[:3]:
        with stage(frozen_broker, "sessions", guarantee) as on:  # type: ignore[arg-type]
            stop_at(on, point)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_run_stops_in_time_wherever_the_broker_falls_silent(frozen_broker: Broker, guarantee: str) -> None:
    for point in points("sessions", guarantee):
        with stage(frozen_broker, "sessions", guarantee) as on:  # type: ignore[arg-type]
            stop_at(on, point)


def stop_at(on: Stage, point: str) -> None:
    """Let the broker stand still while a run is at a point, and ask the run to stop."""
    on.feed()
    if point.startswith(("during", "before RocksStore.clear", "after RocksStore.clear")):
        before = on.start(replace(on.order(), point="after LocalTask.committed", call=20))
        before.wait()
        on.lose(on.order())
    run = on.start(replace(on.order(), point=point, signal=signal.SIGSTOP))
    wait_until_stopped(run)
    on.broker.pause()
    run.process.send_signal(signal.SIGCONT)
    assert stopped(run.process) in (0, ENDED), f"{point}: {run.errors}"
    on.broker.resume()
    on.broker.wait_for_answer()


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return make_yard(LogSystem(tmp_path / "log", fsync=False), tmp_path)


def test_a_container_that_stands_still_does_not_keep_its_supervisor_from_stopping(yard: Yard) -> None:
    with yard.running("sessions", "--containers", "2") as run:
        found = yard.container("sessions", 1, run)
        assert found is not None
        kill(found, signal.SIGSTOP)
        assert stopped(run) == 0
        assert "container 1 did not stop within 8 s, and is killed" in run.communicate()[1]


def test_a_function_that_hangs_does_not_keep_a_supervisor_from_stopping(yard: Yard) -> None:
    yard.target.write_text(yard.target.read_text().replace("time.sleep(0.001)", "time.sleep(3600)"))
    with yard.running("sessions", "--containers", "2") as run:
        assert yard.container("sessions", 1, run) is not None
        assert stopped(run) == 0


def test_what_a_dead_container_has_started_keeps_it_neither_from_a_restart_nor_the_supervisor_from_stopping(
    yard: Yard,
) -> None:
    """It has the container's standard error open, as the workers of a pool do."""
    lasting = "import subprocess; started or started.append(subprocess.Popen(['sleep', '600']))"
    text = yard.target.read_text().replace("time.sleep(0.001)", lasting)
    yard.target.write_text(text.replace("def slowly", "started: list[object] = []\n\n\ndef slowly", 1))
    groups = []
    with yard.running("sessions", "--containers", "2") as run:
        yard.wait_for_output()
        for number in range(2):
            found = yard.container("sessions", number, run)
            assert found is not None
            groups.append(process_of(found))  # each is the first of a session
        try:
            os.kill(groups[0], signal.SIGKILL)
            yard.wait_for_words(run, "container 0 was killed by SIGKILL")
            assert stopped(run) == 0
        finally:
            for group in groups:
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)


def test_a_supervisor_stops_though_nobody_reads_what_it_says(yard: Yard) -> None:
    loud = "print('x' * 5000, file=sys.stderr)"
    yard.target.write_text(yard.target.read_text().replace("time.sleep(0.001)", f"import sys; {loud}"))
    with yard.running("sessions", "--containers", "2", "--quiet") as run:
        for number in range(2):
            assert yard.container("sessions", number, run) is not None
        wait_until_full(run.pid, 2)
        assert stopped(run) == 0


def test_a_supervisor_stops_though_nobody_reads_its_summary(yard: Yard) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    try:
        with yard.running("sessions", "--containers", "2", stdout=writing, stderr=writing) as run:
            yard.wait_for_output()
            assert stopped(run) == 0
    finally:
        os.close(reading)
        os.close(writing)


def wait_until_full(process: int, number: int) -> None:
    """Return once the pipe that a process has open under a number takes no more."""
    with open(f"/proc/{process}/fd/{number}", "wb") as pipe:
        wait_until(lambda: not is_read(pipe), "the pipe is full")
