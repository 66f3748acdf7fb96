"""Warm copies of the state of tasks that other containers run."""

import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import count as counter

import pytest
from msgspec import structs

from engines.live_containers import LiveContainers, counting, in_one_thread
from engines.sending import ProducingSystem
from engines.targets import write
from fluvial.dsl import SystemProblem
from fluvial.planner import Settings
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.commit.restore import StoreRestorer
from fluvial.runtime.local.coordination.assignments import Assignment
from fluvial.runtime.local.handover import standbys
from fluvial.runtime.local.handover.standbys import StandbyCopies, standbys_of
from fluvial.runtime.local.task_setup import TaskSetup
from fluvial.runtime.process.machine import THIS_MACHINE

KEYS = [f"k{number}".encode() for number in range(12)]
PARTITIONS = 4


def assignment(tasks: int, containers: int) -> Assignment:
    placed = {f"a/{number}": number % containers for number in range(tasks)}
    return Assignment(generation=1, containers=containers, tasks=placed, run="r", until="stopped")


@pytest.mark.parametrize("number", [0, 1, 2, 5])
def test_copies_are_in_as_many_other_containers_as_are_wanted(number: int) -> None:
    given = assignment(12, 4)
    found = standbys_of(given, number)
    assert found.keys() == given.tasks.keys()
    for task, places in found.items():
        assert given.tasks[task] not in places
        assert len({*places}) == len(places) == min(number, 3)


def test_those_of_one_container_are_spread_over_the_others() -> None:
    given = assignment(12, 4)
    first = [places[0] for task, places in standbys_of(given, 1).items() if given.tasks[task] == 0]
    assert sorted(first) == [1, 2, 3]


def test_one_container_has_none() -> None:
    assert standbys_of(assignment(2, 1), 1) == {"a/0": (), "a/1": ()}


@pytest.fixture
def live() -> Iterator[LiveContainers]:
    """Two containers that have counted what there is."""
    system = ProducingSystem()
    write(system, {"in": [[(key, b"m", 0, ()) for key in KEYS[at::PARTITIONS]] for at in range(PARTITIONS)]})
    with in_one_thread(system), closing(LiveContainers(system, counting(), 2, Settings())) as made:
        for number in range(2):
            made.start(number)
        made.rest()
        yield made


def copying(live: LiveContainers, container: int) -> StandbyCopies:
    moves = live.alive[container][0]._moves
    assert moves is not None
    made = StandbyCopies(live.system, "p", container, 1, moves._opener.prepare)
    made.follow(live._assignment(), live.tasks_of(container))
    return made


def test_a_copy_has_the_state_of_the_last_commit(live: LiveContainers) -> None:
    copies = copying(live, 0)
    copies.turn()
    theirs = live.tasks_of(1)
    assert {*copies._copies} == {*theirs}
    for task in theirs:
        setup = copies.release(task)
        assert setup is not None
        own = live.system.store(f"1:{task}")
        assert {*setup.store.scan(b"n")} == {*own.scan(b"n")}
    copies.close()


def test_what_is_given_out_is_not_copied_again_until_an_assignment_is_followed(live: LiveContainers) -> None:
    copies, task = copying(live, 0), live.tasks_of(1)[0]
    copies.turn()
    assert copies.release(task) is not None
    assert copies.release(task) is None
    copies.turn()
    assert task not in copies._copies
    copies.follow(live._assignment(), live.tasks_of(0))
    copies.turn()
    assert task in copies._copies
    copies.close()


def test_a_task_that_runs_here_is_not_copied(live: LiveContainers) -> None:
    copies = copying(live, 0)
    copies.turn()
    copies.follow(live._assignment(), live.tasks_of(1))  # as if they had been taken over
    assert not copies._copies
    copies.turn()
    assert not copies._copies
    copies.close()


def test_a_copy_that_is_wanted_while_it_rests_is_given_out_as_it_is(live: LiveContainers) -> None:
    copies, task = copying(live, 0), live.tasks_of(1)[0]
    copies._copying = task
    copies._given.add(task)
    with pytest.raises(standbys._Interrupted):
        copies._wait(0.0)
    copies._ends()
    assert copies.release(task) is None
    copies.close()


def test_what_cannot_be_copied_is_reported_and_tried_again(
    live: LiveContainers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standbys, "RETRY_SECONDS", 0.0)
    copies = copying(live, 0)
    prepare, failing = copies._prepare, [True]

    def full(task: str) -> TaskSetup:
        if failing:
            failing.clear()
            raise SystemProblem("the disk is full")
        return prepare(task)

    copies._prepare = full
    copies._turn_safely()
    assert "cannot copy the state of task" in caplog.text
    copies._turn_safely()
    assert {*copies._copies} == {*live.tasks_of(1)}
    copies.close()


def test_a_restore_that_nobody_waits_for_rests_as_long_as_it_works(live: LiveContainers) -> None:
    seconds, rests = counter(), list[float]()
    moves, task = live.alive[0][0]._moves, live.tasks_of(1)[0]
    assert moves is not None
    for often in (0.0, 2.0):
        setup = moves._opener.prepare(task)
        setup.store.clear()
        machine = replace(THIS_MACHINE, clock=lambda: next(seconds), sleep=rests.append)
        restorer = StoreRestorer(live.system, machine=machine, live=True, rests=often)
        restorer.restore([setup], checkpoints_in(live.system, "p"))
        assert bool(rests) == bool(often)
    assert all(rest == 2.0 for rest in rests)


def test_a_copy_that_fails_holds_up_no_other(live: LiveContainers, caplog: pytest.LogCaptureFixture) -> None:
    copies, theirs = copying(live, 0), sorted(live.tasks_of(1))
    prepare = copies._prepare

    def first_fails(task: str) -> TaskSetup:
        if task == theirs[0]:
            raise SystemProblem("a file is in the way")
        return prepare(task)

    copies._prepare = first_fails
    for _ in range(3):
        copies._turn_safely()
    assert {*copies._copies} == {*theirs[1:]}
    assert {*copies.failing} == {theirs[0]}
    assert caplog.text.count("in the way") == 1
    copies._prepare, copies._retry_at[theirs[0]] = prepare, 0.0
    copies._turn_safely()
    assert {*copies._copies} == {*theirs}
    assert not copies.failing
    copies.close()


def test_whoever_wants_a_copy_does_not_wait_until_it_has_rested(live: LiveContainers) -> None:
    copies, task = copying(live, 0), live.tasks_of(1)[0]
    copies.turn()
    assert copies._begins(task)
    began = threading.Event()

    def rest() -> None:
        began.set()
        with pytest.raises(standbys._Interrupted):
            copies._wait(3600.0)
        copies._ends()

    resting = threading.Thread(target=rest)
    resting.start()
    assert began.wait(10)
    assert copies.release(task) is not None
    resting.join(10)
    assert not resting.is_alive()
    copies.close()


def test_copies_are_on_containers_that_are_there_and_stay_where_they_are_as_others_go() -> None:
    given = assignment(12, 4)
    before, after = standbys_of(given, 1), standbys_of(given, 1, copying=[0, 1, 3])
    for task, places in after.items():
        assert 2 not in places
        assert before[task] in (places, (2,))
    one = assignment(2, 1)
    assert standbys_of(one, 1, copying=[0, 2, 3]) == {"a/0": (2,), "a/1": (2,)}


def test_what_a_container_is_to_get_is_copied_until_it_is_given_out(live: LiveContainers) -> None:
    copies, task = copying(live, 0), live.tasks_of(1)[0]
    copies.turn()
    mine = structs.replace(live._assignment(), tasks={**live._assignment().tasks, task: 0})
    copies.follow(mine, live.tasks_of(0))
    assert task in copies._copies
    assert copies.release(task) is not None
    copies.close()


def test_stores_of_tasks_that_are_neither_here_nor_copied_are_removed_once_all_are_settled(
    live: LiveContainers,
) -> None:
    copies, kept = copying(live, 0), list[set[str]]()
    copies._remove_others = lambda tasks: kept.append({*tasks})
    own, theirs = live.tasks_of(0), live.tasks_of(1)
    copies.turn()
    copies.follow(live._assignment(), own)
    copies.turn()
    assert not kept  # tasks move: what is here may be needed
    copies.follow(live._assignment(), own, settled=True)
    copies.turn()
    copies.turn()
    assert kept == [{*own, *theirs}]
    copies.follow(live._assignment(), own, copying=[1, 2], settled=True)
    copies.turn()
    assert (kept[1], copies._copies) == ({*own}, {})
    copies.close()


def test_what_is_committed_is_followed_anew_after_an_error(
    live: LiveContainers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standbys, "RETRY_SECONDS", 0.0)
    copies = copying(live, 0)
    copies.turn()
    assert copies._follower is not None
    copies._follower.checkpoints = None  # type: ignore[assignment]
    copies._turn_safely()
    assert "cannot see what tasks have committed" in caplog.text
    copies._turn_safely()
    assert {*copies._copies} == {*live.tasks_of(1)}
    copies.close()
