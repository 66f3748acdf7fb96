"""Containers as processes that are killed, stopped, and started in other numbers: nothing is lost."""

import random
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from fluvial.runtime.systems import KafkaSystem, LogSystem
from kafka.container_runs import Yard, alive, ended, kill, make_yard, title
from waiting import wait_until

pytestmark = pytest.mark.slow
TWO = ("--containers", "2")
EXACTLY = ("--guarantee", "exactly_once")


@pytest.fixture(params=["log", pytest.param("kafka", marks=[pytest.mark.kafka, pytest.mark.long])])
def yard(request: Any, tmp_path: Path) -> Yard:
    if request.param == "log":
        return make_yard(LogSystem(tmp_path / "log", fsync=False), tmp_path)
    return make_yard(KafkaSystem(request.getfixturevalue("broker").address), tmp_path)


@pytest.mark.parametrize(
    ("which", "guarantee"),
    [
        ("sessions", "exactly_once"),
        pytest.param("lookups", "at_least_once", marks=pytest.mark.long),
        pytest.param("sessions", "at_least_once", marks=pytest.mark.long),
        pytest.param("lookups", "exactly_once", marks=pytest.mark.long),
    ],
)
def test_a_container_that_is_killed_is_started_again_and_nothing_is_lost(
    yard: Yard, which: str, guarantee: str
) -> None:
    delays = random.Random(which + guarantee)
    with yard.running(which, *TWO, "--until", "end", "--guarantee", guarantee) as run:
        before = ["", ""]
        for number in (0, 1, 0, 1):
            found = yard.container(which, number, run, before[number])
            if found is not None:
                before[number] = found.incarnation
                assert title(found).endswith(f"-{which[0]}: container {number} of 2")
                time.sleep(delays.uniform(0, 0.5))
                kill(found)
        said = ended(run, 0)
    assert "was killed by SIGKILL; it is started again" in said
    assert "counts lack what containers did before they were started again" in said
    assert yard.missing(which) == []
    assert guarantee == "at_least_once" or yard.written() == yard.expected(which)


@pytest.mark.long
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_containers_that_are_killed_as_they_catch_up_stop_at_the_same_messages(yard: Yard, guarantee: str) -> None:
    for number in (0, 1):
        with yard.running("sessions", *TWO, "--guarantee", guarantee, "--until", "caught-up") as run:
            found = yard.container("sessions", number, run)
            assert found is not None
            kill(found)
            ended(run, 0)
        assert all(b"z" not in (message.value or b"") for message in yard.written())  # time is not there yet
        yard.feed_more()
    yard.run("sessions", *TWO, "--guarantee", guarantee)
    assert yard.missing("sessions") == []
    added = Counter(message for message in yard.written() if (message.value or b"").startswith(b"z"))
    assert len(added) == 1
    assert guarantee == "at_least_once" or yard.written() - added == yard.expected("sessions")


def test_all_stop_together_after_a_commit_and_go_on_in_any_number(yard: Yard) -> None:
    before = ""
    for containers in (2, 1):
        with yard.running("sessions", "--containers", str(containers), *EXACTLY) as run:
            found = yard.container("sessions", 0, run, before)
            assert found is not None
            before = found.incarnation
            run.send_signal(signal.SIGTERM)
            ended(run, 0)
    yard.run("sessions", *TWO, *EXACTLY)
    assert yard.written() == yard.expected("sessions")


def test_anything_may_start_the_containers(yard: Yard) -> None:
    words = (*TWO, *EXACTLY, "--until", "end", "--container-id")
    with yard.running("sessions", *words, "0") as first:
        died = yard.container("sessions", 0, first)
        assert died is not None
        with yard.running("sessions", *words, "1") as second:
            yard.wait_for_output()
            kill(died)
            ended(first, -signal.SIGKILL)
            with yard.running("sessions", *words, "0") as again:
                ended(again, 0)
            ended(second, 0)
    assert yard.written() == yard.expected("sessions")


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_a_container_that_is_restarted_when_all_are_done_ends_or_says_whom_it_waits_for(
    yard: Yard, guarantee: str
) -> None:
    words = (*TWO, "--guarantee", guarantee, "--until", "end", "--container-id")
    with yard.running("sessions", *words, "0") as first, yard.running("sessions", *words, "1") as second:
        ended(first, 0)
        ended(second, 0)
    written = yard.written()
    with yard.running("sessions", *words, "0") as again:
        assert "waits for" not in ended(again, 0)
    assert yard.written() == written

    yard.feed_more()
    with yard.running("sessions", *words, "0") as alone:
        said = yard.wait_for_words(alone, "container 0 waits for container 1 of 2")
        assert "which has not started in this run: 1" in said  # after 10 s and something
        with yard.running("sessions", *words, "1") as other:
            ended(alone, 0)
            ended(other, 0)
    assert yard.missing("sessions") == []


def test_containers_stop_when_their_supervisor_is_killed(yard: Yard) -> None:
    with yard.running("sessions", *TWO, *EXACTLY) as run:
        found = [yard.container("sessions", number, run) for number in range(2)]
        yard.wait_for_output()
        run.kill()
        run.wait()
    wait_until(lambda: not any(one is not None and alive(one) for one in found), "both containers have stopped")
    yard.run("sessions", *TWO, *EXACTLY)
    assert yard.written() == yard.expected("sessions")


def test_a_container_that_dies_too_often_ends_the_run(yard: Yard) -> None:
    with yard.running("sessions", *TWO, "--max-restarts", "0") as run:
        found = yard.container("sessions", 1, run)
        assert found is not None
        kill(found)
        said = ended(run, 128 + signal.SIGKILL)
    assert "container 1 has died too often, which ends the run. The others are stopped." in said


def test_a_message_that_fails_ends_the_run(yard: Yard) -> None:
    text = yard.target.read_text().replace("return word\n", "return word if len(word) < 4 else word[9]\n")
    yard.target.write_text(text)
    with yard.running("sessions", *TWO, "--until", "end") as run:
        said = ended(run, 5)
    assert "IndexError" in said
    assert "ended with exit code 5, which ends the run" in said


# On a log a process that stands still may hold the lock that all who write need.
@pytest.mark.parametrize("yard", [pytest.param("kafka", marks=pytest.mark.kafka)], indirect=True)
@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_a_container_that_stood_still_while_its_tasks_went_on_elsewhere_does_no_harm(
    yard: Yard, guarantee: str
) -> None:
    words = (*TWO, "--guarantee", guarantee, "--container-id")
    with yard.running("sessions", *words, "0") as first, yard.running("sessions", *words, "1") as second:
        assert yard.container("sessions", 0, first)
        zombie = yard.container("sessions", 1, second)
        assert zombie is not None
        yard.wait_for_output()
        kill(zombie, signal.SIGSTOP)
        first.send_signal(signal.SIGTERM)
        ended(first, 0)
        with yard.running("sessions", "--until", "end", "--guarantee", guarantee) as alone:
            ended(alone, 0)
        kill(zombie, signal.SIGCONT)
        said = ended(second, 4)
    assert "has lost its place" in said or "another run has taken over" in said
    assert yard.missing("sessions") == []
    assert guarantee == "at_least_once" or yard.written() == yard.expected("sessions")
