"""The coordinator stream by itself: what is read back, who decides, and what a container that follows it notices."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from engines.sending import ProducingSystem
from explained import assert_explains, error_of
from fluvial.dsl import SystemProblem
from fluvial.dsl.errors import TakenOver
from fluvial.runtime.local.coordination.assignments import (
    Assignment,
    CoordinatorState,
    LivenessQuery,
    Presence,
    RunPhase,
    read_record,
    record_of,
)
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator, MembershipMonitor, claimed
from fluvial.runtime.systems import LogSystem, MemorySystem

FIRST = Assignment(generation=1, containers=2, tasks={"in/0": 0, "in/1": 1}, run="one", until="end")
SECOND = Assignment(generation=2, containers=1, tasks={"in/0": 0, "in/1": 0}, run="two", until="end")
Make = Callable[[], MemorySystem]


def presence(container: int, state: RunPhase = "running", incarnation: str = "first") -> Presence:
    return Presence(
        container=container,
        generation=1,
        run="one",
        incarnation=incarnation,
        state=state,
        process=f"process {container}",
    )


@pytest.fixture(params=[MemorySystem, ProducingSystem])
def coordinator(request: pytest.FixtureRequest) -> Coordinator:
    """A coordinator on a system with claims, and on one with fencing."""
    make: Make = request.param
    return Coordinator(make(), "p")


def decide(coordinator: Coordinator, assignment: Assignment) -> CoordinatorState:
    """Write an assignment. Returns the state before it."""
    with coordinator.decided(lambda _: assignment) as (_, state, _):
        return state


def following(coordinator: Coordinator) -> MembershipMonitor:
    """Container 0 of the first assignment, which has announced that it runs."""
    decide(coordinator, FIRST)
    state, read_to = coordinator.read()
    monitor = coordinator.monitor(read_to, FIRST, presence(0), state)
    coordinator.write(presence(0))
    monitor.check(wait=True)
    return monitor


def test_an_empty_stream_has_no_assignment(coordinator: Coordinator) -> None:
    assert coordinator.read() == (CoordinatorState(), 0)


def test_the_last_assignment_and_the_last_presence_of_each_container_count(coordinator: Coordinator) -> None:
    assert decide(coordinator, FIRST) == CoordinatorState()
    coordinator.write(presence(0, "starting"))
    coordinator.write(presence(0, "done"))
    coordinator.write(presence(1))
    state, _ = coordinator.read()
    assert state == CoordinatorState(FIRST, {0: presence(0, "done"), 1: presence(1)})
    assert decide(coordinator, SECOND) == state
    assert coordinator.read()[0].assignment == SECOND


def test_who_holds_all_claims_writes_an_assignment_in_place_of_all_records(tmp_path: Path) -> None:
    coordinator = Coordinator(LogSystem(tmp_path, fsync=False), "p")
    decide(coordinator, FIRST)
    coordinator.write(presence(0, "done"))
    coordinator.write_assignment(SECOND)
    assert coordinator.read()[0] == CoordinatorState(SECOND)


def test_an_assignment_that_stands_already_is_not_written_again(coordinator: Coordinator) -> None:
    decide(coordinator, FIRST)
    before = coordinator.read()
    assert decide(coordinator, FIRST) == before[0]
    assert coordinator.read() == before


def test_a_container_sees_who_is_absent_and_who_is_not_done(coordinator: Coordinator) -> None:
    with closing(following(coordinator)) as monitor:
        assert (monitor.absent, monitor.unfinished) == ((1,), ())
        coordinator.write(presence(1))
        monitor.check(wait=True)
        assert (monitor.absent, monitor.unfinished) == ((), (presence(1),))
        coordinator.write(presence(1, "done"))
        monitor.check(wait=True)
        assert (monitor.absent, monitor.unfinished) == ((), ())


def test_a_container_hears_that_somebody_asks_for_it(coordinator: Coordinator) -> None:
    with closing(following(coordinator)) as monitor:
        assert not monitor.liveness_queried
        coordinator.write(LivenessQuery(process="process 9"))
        monitor.check(wait=True)
        assert monitor.liveness_queried


def test_a_new_generation_takes_the_place_of_a_container(coordinator: Coordinator) -> None:
    with closing(following(coordinator)) as monitor:
        decide(coordinator, SECOND)
        error = error_of(lambda: monitor.check(wait=True), TakenOver)
    assert_explains(error, "generation 2, with 1 container, has begun", None, "one process for each container", "stop")


def test_another_process_takes_the_place_of_a_container_and_its_neighbour_does_not(coordinator: Coordinator) -> None:
    with closing(following(coordinator)) as monitor:
        coordinator.write(presence(1, "starting", "second"))
        coordinator.write(presence(0))  # its own, once more
        monitor.check(wait=True)
        coordinator.write(presence(0, "starting", "second"))
        error = error_of(lambda: monitor.check(wait=True), TakenOver)
    assert_explains(error, "process 0 has taken it", None, "one process for each container", "stop")


def test_nobody_answers_where_nobody_is_alive(coordinator: Coordinator) -> None:
    coordinator.write(presence(0))  # from before the question
    assert coordinator.ask("process 9", 0.01) is None


def test_a_claim_that_another_holds_is_refused_after_a_while() -> None:
    system = MemorySystem()
    with claimed(system, "p", "0", 0.0):
        refused = claimed(system, "p", "0", 0.0)
        with pytest.raises(SystemProblem), refused:
            pass
    with claimed(system, "p", "0", 0.0):
        pass


@pytest.mark.parametrize(("key", "value"), [(b"vote:1", b"{}"), (None, b"{}"), (record_of(FIRST)[0], None)])
def test_a_record_of_a_kind_that_a_later_version_may_have_added_is_passed_over(
    key: bytes | None, value: bytes | None
) -> None:
    assert read_record(key, value) is None
