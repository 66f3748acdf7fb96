"""Containers that are killed while tasks move: nothing is lost, and under exactly_once nothing is repeated."""

import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.handover.owners import owners_of
from fluvial.runtime.systems import KafkaSystem
from kafka.broker import Broker
from kafka.container_runs import FLUVIAL, PATIENCE, Yard, ended, kill, make_yard
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]


@pytest.fixture
def yard(broker: Broker, tmp_path: Path) -> Yard:
    """Words that take so long that several changes fall into them."""
    made = make_yard(KafkaSystem(broker.address), tmp_path)
    made.target.write_text(made.target.read_text().replace("time.sleep(0.001)", "time.sleep(0.01)"))
    return made


@contextmanager
def scaling(yard: Yard, which: str, containers: int, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """`fluvial scale` to so many containers, under way; it is over at the end of the context."""
    command = [FLUVIAL, "scale", f"{yard.target}:{which}", "--system", yard.system.url, "--containers", str(containers)]
    command += words
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, cwd=yard.folder, stdout=pipe, stderr=pipe, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def generation(yard: Yard, which: str) -> int:
    assignment = Coordinator(yard.system, yard.pipeline(which).name).read()[0].assignment
    assert assignment is not None
    return assignment.generation


def owners(yard: Yard, which: str) -> set[int]:
    """The containers that have tasks."""
    name = yard.pipeline(which).name
    assignment = Coordinator(yard.system, name).read()[0].assignment
    return set() if assignment is None else {*owners_of(assignment, checkpoints_in(yard.system, name)).values()}


def decided(yard: Yard, which: str, before: int, change: "subprocess.Popen[str]") -> bool:
    """Whether a change is decided, which was not refused."""
    assert change.poll() in (None, 0), ended(change, 0)
    return generation(yard, which) > before


KINDS = pytest.mark.parametrize(
    ("which", "guarantee"),
    [("sessions", "exactly_once"), ("lookups", "exactly_once"), ("sessions", "at_least_once")],
)
SEEDS = pytest.mark.parametrize("seed", range(3))


def check_kills(
    yard: Yard, which: str, guarantee: str, chance: random.Random, changes: Sequence[tuple[int, *tuple[str, ...]]]
) -> None:
    """In each of these changes one of the containers is killed, and nothing is lost."""
    with yard.running(which, "--containers", "2", "--guarantee", guarantee) as run:
        yard.wait_for_output()
        for containers, *words in changes:
            before = generation(yard, which)
            with scaling(yard, which, containers, *words) as change:
                wait_until(partial(decided, yard, which, before, change), "the change is decided", PATIENCE)
                time.sleep(chance.uniform(0.0, 3.0))
                found = Coordinator(yard.system, yard.pipeline(which).name).read()[0].presences
                kill(found[chance.choice(sorted(found))])
                ended(change, 0)
        run.send_signal(signal.SIGTERM)
        ended(run, 0)
    yard.run(which, "--guarantee", guarantee)
    assert yard.missing(which) == []
    assert guarantee == "at_least_once" or yard.written() == yard.expected(which)


@KINDS
@SEEDS
def test_containers_that_are_killed_while_tasks_move_lose_nothing(
    yard: Yard, which: str, guarantee: str, seed: int
) -> None:
    check_kills(yard, which, guarantee, random.Random(f"{which} {guarantee} {seed}"), [(3,), (1,), (2,)])


@KINDS
@SEEDS
def test_containers_that_are_killed_while_tasks_are_split_and_merged_lose_nothing(
    yard: Yard, which: str, guarantee: str, seed: int
) -> None:
    changes = [(2, "--elasticity", "2"), (3, "--elasticity", "4"), (2, "--elasticity", "1")]
    check_kills(yard, which, guarantee, random.Random(f"split {which} {guarantee} {seed}"), changes)


@pytest.mark.parametrize("stands_still", [False, True])
@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_standbys_go_on_with_the_tasks_of_a_container_that_is_silent(
    yard: Yard, guarantee: str, stands_still: bool
) -> None:
    words = ("--containers", "2", "--guarantee", guarantee, "--standbys", "1", "--heartbeat-timeout", "1s")
    with yard.running("sessions", *words) as run:
        yard.wait_for_output()
        wait_until(lambda: owners(yard, "sessions") == {0, 1}, "both have tasks", PATIENCE)
        gone = Coordinator(yard.system, yard.pipeline("sessions").name).read()[0].presences[1]
        kill(gone, signal.SIGSTOP if stands_still else signal.SIGKILL)
        wait_until(lambda: owners(yard, "sessions") == {0}, "the other has its tasks", PATIENCE)
        kill(gone, signal.SIGCONT)
        yard.container("sessions", 1, run, gone.incarnation)
        run.send_signal(signal.SIGTERM)
        assert "container 1 of pipeline" in ended(run, 0)
    yard.run("sessions", "--guarantee", guarantee)
    assert yard.missing("sessions") == []
    assert guarantee == "at_least_once" or yard.written() == yard.expected("sessions")


def test_containers_that_are_started_by_their_numbers_share_a_run(yard: Yard) -> None:
    """As the pods of a StatefulSet: more join, one is killed and started again, and one is gone for good."""
    words = ("--guarantee", "exactly_once", "--container-id")
    with ExitStack() as stack:
        pods = {0: stack.enter_context(yard.running("sessions", *words, "0"))}
        yard.wait_for_output()
        for number in (1, 2):
            pods[number] = stack.enter_context(yard.running("sessions", *words, str(number)))
        wait_until(lambda: owners(yard, "sessions") == {0, 1, 2}, "each of them has tasks", PATIENCE)
        pods[1].kill()
        pods[1] = stack.enter_context(yard.running("sessions", *words, "1"))
        pods[2].kill()
        with scaling(yard, "sessions", 2) as change:
            assert "container 2 is gone: others go on with its" in ended(change, 0)
        assert owners(yard, "sessions") == {0, 1}
        for number in (0, 1):
            pods[number].send_signal(signal.SIGTERM)
            ended(pods[number], 0)
    yard.run("sessions", "--guarantee", "exactly_once")
    assert yard.written() == yard.expected("sessions")
