"""No container runs while what a pipeline keeps is changed by hand: it is noticed, or it has lost its place."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from engines.machines import hasty
from engines.sending import ProducingSystem
from engines.targets import write
from fluvial.dsl import Pipeline, SystemProblem, TakenOver
from fluvial.planner import Plan, plan
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.coordination.exclusion import begin_anew, no_containers
from fluvial.runtime.local.coordination.membership import ContainerId, MembershipGuard, join
from fluvial.runtime.systems import LogSystem, System


def planned(system: System) -> Plan:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out", value=str)
    write(system, {"in": [[], []]})
    return plan(pipeline, partitions={"in": 2})


@contextmanager
def at_work(guard: MembershipGuard) -> Iterator[None]:
    """Meanwhile a container looks again and again whether it still is of the run."""
    over = Event()

    def look() -> None:
        while not over.wait(0.001):
            guard.check()

    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(look)
        try:
            yield
        finally:
            over.set()
            looking.result()


def look_often(guard: MembershipGuard) -> None:
    """A look may see a part of what was written."""
    for _ in range(9):
        guard.check()


@pytest.mark.parametrize("containers", [1, 2])
def test_a_container_that_is_asked_says_that_it_is_alive(containers: int) -> None:
    system = ProducingSystem()
    with join(planned(system), system, ContainerId(containers - 1, containers), "stopped", hasty()) as guard:
        guard.announce("running")
        with at_work(guard), pytest.raises(SystemProblem) as raised, no_containers("p", system):
            raise AssertionError
        assert f"container {containers - 1} of pipeline 'p' on memory: is alive: process" in str(raised.value)
        guard.check()  # and goes on


def test_a_container_that_stands_still_has_lost_its_place() -> None:
    system = ProducingSystem()
    with join(planned(system), system, ContainerId(), "stopped", hasty()) as guard:
        sender = system.record_producer(guard.membership.transactional_id)
        with no_containers("p", system, hasty()):
            pass
        with pytest.raises(TakenOver, match="another run has begun"):
            look_often(guard)
        with pytest.raises(SystemProblem, match="another sender has this id"):
            sender.begin()
    with join(planned(system), system, ContainerId(), "stopped", hasty()) as guard:
        guard.check()


def test_what_changes_nothing_takes_no_place() -> None:
    system = ProducingSystem()
    with join(planned(system), system, ContainerId(0, 2), "end", hasty()) as guard:
        sender, before = system.record_producer(guard.membership.transactional_id), guard.membership.run
        with no_containers("p", system, hasty(), dry_run=True):
            pass
        look_often(guard)
        sender.begin()
        guard.announce("running")
        with at_work(guard), pytest.raises(SystemProblem), no_containers("p", system, dry_run=True):
            raise AssertionError
    with join(planned(system), system, ContainerId(0, 2), "end") as guard:
        assert guard.membership.run == before


def test_containers_that_come_after_it_begin_another_run() -> None:
    system = ProducingSystem()
    with join(planned(system), system, ContainerId(0, 2), "end") as guard:
        before = guard.membership
    with no_containers("p", system, hasty()):
        pass
    with join(planned(system), system, ContainerId(0, 2), "end") as guard:
        assert guard.membership.run != before.run
        assert guard.membership.ends == {("in", 0): 0, ("in", 1): 0}


def test_claims_tell_of_containers_on_a_log(tmp_path: Path) -> None:
    system = LogSystem(tmp_path, fsync=False)
    with no_containers("p", system):
        pass
    made = planned(system)
    with (
        join(made, system, ContainerId(1, 2), "stopped"),
        pytest.raises(SystemProblem, match="container 1"),
        no_containers("p", system),
    ):
        raise AssertionError
    taken = join(made, system, ContainerId(1, 2), "stopped", hasty())
    with no_containers("p", system), pytest.raises(SystemProblem), taken:
        raise AssertionError


def test_containers_that_are_done_on_a_log_begin_another_run_once_something_has_changed(tmp_path: Path) -> None:
    system = LogSystem(tmp_path, fsync=False)
    with no_containers("p", system):
        begin_anew("p", system)
    assert system.admin().partitions("p-coordinator") is None
    made = planned(system)
    Coordinator(system, "p")
    with no_containers("p", system):
        begin_anew("p", system)
    with join(made, system, ContainerId(0, 2), "end") as guard:
        before = guard.membership
    with no_containers("p", system):
        pass
    assert run_of(made, system) == before.run
    with no_containers("p", system):
        begin_anew("p", system)
    assert run_of(made, system) != before.run


def run_of(made: Plan, system: System) -> str:
    with join(made, system, ContainerId(0, 2), "end") as guard:
        return guard.membership.run
