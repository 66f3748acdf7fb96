"""The tasks of a run whose elasticity has changed: of a container that is started again, and of the next run."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from engines.live_containers import LiveContainers, counting, in_one_thread, rushing
from engines.sending import ProducingSystem
from engines.targets import contents, write
from explained import assert_explains, error_of
from fluvial.dsl import PlanError
from fluvial.planner import Settings
from fluvial.planner.plan import Plan
from fluvial.runtime import run
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint, checkpoints_in
from fluvial.runtime.local.coordination.membership import ContainerId, begin_run
from fluvial.runtime.local.handover.run_plan import half_changed, plan_of_run

KEYS = [f"k{number}".encode() for number in range(12)]
PARTITIONS = 2


@pytest.fixture
def system() -> Iterator[ProducingSystem]:
    made = ProducingSystem()
    write(made, {"in": [[(key, b"m", 0, ()) for key in KEYS[at::PARTITIONS]] for at in range(PARTITIONS)]})
    with in_one_thread(made):
        yield made


def begun(system: ProducingSystem, containers: int = 1, elasticity: int = 1) -> LiveContainers:
    live = LiveContainers(system, counting(), containers, Settings(elasticity=elasticity))
    for number in range(containers):
        live.start(number)
    return live


def elasticity(plan: Plan | None) -> int | None:
    return None if plan is None else plan.stages[0].elasticity


def test_a_container_that_is_started_again_has_the_elasticity_that_its_run_has_now(system: ProducingSystem) -> None:
    with closing(begun(system)) as live:
        own = ContainerId(0, 1, live.run)
        assert elasticity(plan_of_run(live.plan, system, own, "stopped")) == 1
        live.scale(1, elasticity=4)
        assert elasticity(plan_of_run(live.plan, system, own, "stopped")) == 4
        live.rest()
        live.start(0)
        assert len(live.tasks_of(0)) == 4 * PARTITIONS


def test_whoever_begins_a_run_decides_on_the_elasticity(system: ProducingSystem) -> None:
    with closing(begun(system)) as live:
        live.scale(1, elasticity=4)
        assert plan_of_run(live.plan, system, ContainerId(), "stopped") is None
        assert plan_of_run(live.plan, system, ContainerId(0, 1, "another run"), "stopped") is None
        assert plan_of_run(live.plan, system, ContainerId(1, 2), "end") is None
        assert elasticity(plan_of_run(live.plan, system, ContainerId(1, 0), "stopped")) == 4


def test_before_any_run_there_is_none_to_join(system: ProducingSystem) -> None:
    live = LiveContainers(system, counting(), 0, Settings())
    assert plan_of_run(live.plan, ProducingSystem(), ContainerId(0, 0), "stopped", rushing()) is None


def test_what_is_split_in_part_is_named_by_its_checkpoints(system: ProducingSystem) -> None:
    plan = LiveContainers(system, counting(), 0, Settings()).plan
    assert half_changed(plan, {"in/0-0-2": Checkpoint(), "in/0-1-2": Checkpoint()}) == []
    stored = {"in/0-0-2": Checkpoint(), "in/0-1-2": Checkpoint(), "in/1": Checkpoint(), "gone/0-0-4": Checkpoint()}
    assert half_changed(plan, stored) == ["in/0-0-2", "in/0-1-2", "in/1"]


def split_in_part(system: ProducingSystem) -> LiveContainers:
    """A pipeline that was stopped after one of its two tasks was split."""
    live = begun(system, 2)
    live.rest()
    live.scale(2, elasticity=2)
    for _ in range(100):  # only one of the two containers goes on
        live.turn(0)
        live.turn(1) if live.is_moving(0) and len(checkpoints_in(system, "p")) == PARTITIONS else None
    live.close()
    return live


@pytest.mark.parametrize("after", [1, 2, 4])
def test_the_next_run_goes_on_with_a_change_that_is_half_done(system: ProducingSystem, after: int) -> None:
    plan = split_in_part(system).plan
    assert len(half_changed(plan, checkpoints_in(system, "p"))) == 3
    with closing(begun(system, elasticity=after)) as live:
        live.rest()
        assert len(live.tasks_of(0)) == PARTITIONS * after
        assert {*checkpoints_in(system, "p")} == {*live.tasks_of(0)}


def test_a_run_to_an_end_with_a_change_that_is_half_done_is_refused(system: ProducingSystem) -> None:
    split_in_part(system)
    error = error_of(lambda: run(counting(), system=system, until="end", settings=Settings(elasticity=2)), PlanError)
    assert_explains(
        error, "was stopped while its elasticity changed", None, "complete", "start it once without --until"
    )
    assert not contents(system, "out")


def test_a_run_that_begins_while_another_splits_tasks_has_those_that_there_are(system: ProducingSystem) -> None:
    """The containers of the other are fenced as those of this one are opened, and may have committed until then."""
    old = begun(system)
    old.rest()
    old.scale(1, elasticity=2)
    with closing(LiveContainers(system, counting(), 0, Settings())) as new:  # it has looked at the checkpoints
        while len(checkpoints_in(system, "p")) == PARTITIONS:
            old.turn(0)
        old.close()
        new.run, new.containers = begin_run(new.plan, system, 1, "stopped"), 1
        new.start(0)
        assert all("-2" in task or task == "in/1" for task in new.tasks_of(0))
        new.rest()
        assert new.tasks_of(0) == ["in/0", "in/1"]
        assert {*checkpoints_in(system, "p")} == {"in/0", "in/1"}
    assert {one.offsets["in"] for one in checkpoints_in(system, "p").values()} == {len(KEYS) // PARTITIONS}
