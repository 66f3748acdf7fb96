"""Autosizing: what is decided, carried out, advised and told, and what an error does. Time is the test's."""

from collections.abc import Mapping
from typing import Any

import pytest

from engines.reported_load import planned, told
from engines.sending import ProducingSystem
from fluvial.dsl import SystemProblem
from fluvial.planner.task_assignment import stages_of
from fluvial.runtime.autosize import Autosize, RunLoad, RunSize, SizeBounds, SizeDecision
from fluvial.runtime.containers.autosizing import Autosizing, first_size, shared_processors
from fluvial.runtime.local.coordination.assignments import SizingRecord
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.coordination.membership import begin_run
from fluvial.runtime.process.machine import Machine

ONES = {"in": 1, "p-by": 1}


class Scripted:
    """An autosizer that decides what the test says."""

    def __init__(self, containers: int = 1, elasticity: Mapping[str, int] | None = None) -> None:
        self.size = RunSize(containers, ONES if elasticity is None else elasticity)
        self.error: Exception | None = None

    def decide(self, load: RunLoad, bounds: SizeBounds) -> SizeDecision:
        assert load.size.containers <= bounds.containers[1]
        if self.error is not None:
            raise self.error
        return SizeDecision(self.size, "as the test says")


class Run:
    """A run of one container that reports each second, and what becomes of its size."""

    def __init__(self, autosizer: Scripted, *, advise: bool = False, fails: Exception | None = None) -> None:
        self.now, self.system, self.said = 0.0, ProducingSystem(), list[str]()
        self.scaled: list[tuple[int, dict[str, int], list[str]]] = []
        self.fails = fails
        asked = Autosize(containers=(1, 4), elasticity=(1, 8), autosizer=autosizer, advise=advise)
        machine = Machine(clock=lambda: self.now)
        self.autosizing = Autosizing(
            planned(), self.system, "r", asked, self.said.append, scale=self._scale, machine=machine
        )

    def _scale(self, plan: Any, system: Any, containers: int, *, elastic: list[str], **_: Any) -> None:
        assert system is self.system
        if self.fails is not None:
            raise self.fails
        self.scaled.append((containers, {stage.id: stage.elasticity for stage in plan.stages}, elastic))

    def passes(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.now += 1.0
            self.autosizing.add(told(self.now))
            if self.now % 5 == 0:
                self.autosizing.turn()

    @property
    def record(self) -> SizingRecord | None:
        return Coordinator(self.system, "p").read()[0].sizing


def test_nothing_is_decided_before_the_load_is_known() -> None:
    run = Run(Scripted(2))
    run.passes(15)
    assert (run.scaled, run.record) == ([], None)


def test_a_decision_is_carried_out_and_reported() -> None:
    run = Run(Scripted(2, {"in": 2, "p-by": 1}))
    run.passes(20)
    assert run.scaled == [(2, {"in": 2, "p-by": 1}, ["in"])]
    assert run.said == ["autosizer: from 1 to 2 containers: as the test says", "autosizer: 2 containers after 0.0 s"]
    assert run.record == SizingRecord(
        run="r", containers=2, elasticity={"in": 2, "p-by": 1}, reason="as the test says", applied=True
    )


def test_why_it_stays_is_recorded_once_a_minute() -> None:
    run = Run(Scripted(1))
    run.passes(70)
    end = run.system.admin().ends("p-coordinator")[0]
    assert (run.said, run.scaled, end) == ([], [], 1)
    run.passes(30)
    assert run.system.admin().ends("p-coordinator")[0] == 2


def test_advice_is_reported_once_and_nothing_is_changed() -> None:
    run = Run(Scripted(3), advise=True)
    run.passes(60)
    assert run.said == ["autosizer: advises 3 containers: as the test says"]
    assert run.scaled == []
    assert run.record is not None
    assert not run.record.applied


def test_a_change_that_fails_is_tried_again_later_and_later() -> None:
    run = Run(Scripted(2), fails=SystemProblem("no container of it runs"))
    run.passes(300)
    assert [line.splitlines()[-1] for line in run.said if "again" in line] == [
        f"  the run stays as it is; tried again in {seconds} s" for seconds in (30, 60, 120, 240)
    ]
    run.fails = None
    run.passes(240)
    assert [containers for containers, _, _ in run.scaled][:1] == [2]


@pytest.mark.parametrize("error", [ValueError("no"), ZeroDivisionError()], ids=repr)
def test_an_error_of_a_users_autosizer_ends_nothing(error: Exception) -> None:
    autosizer = Scripted(2)
    run, autosizer.error = Run(autosizer), error
    run.passes(25)
    assert run.said == [f"autosizer: {error!r}\n  the run stays as it is; tried again in 30 s"]
    autosizer.error = None
    run.passes(30)
    assert run.scaled


@pytest.mark.parametrize(
    "size", [RunSize(5, ONES), RunSize(0, ONES), RunSize(2, {"in": 3, "p-by": 1}), RunSize(2, {"in": 1})], ids=repr
)
def test_a_size_beyond_the_bounds_is_refused(size: RunSize) -> None:
    run = Run(Scripted(size.containers, size.elasticity))
    run.passes(20)
    assert run.scaled == []
    assert run.said[0].startswith("autosizer: Scripted.decide() returned RunSize(")


def test_its_thread_decides_and_ends() -> None:
    run = Run(Scripted(2))
    run.autosizing.start()
    run.autosizing.close()
    assert run.scaled == []


@pytest.mark.parametrize(
    ("before", "asked", "expected"),
    [
        (None, Autosize(containers=(2, 4), elasticity=(2, 8)), RunSize(2, {"in": 2, "p-by": 2})),
        (3, Autosize(containers=(1, 4)), RunSize(3, ONES)),
        (9, Autosize(containers=(1, 4)), RunSize(4, ONES)),
        (3, Autosize(containers=(1, 4), elasticity=(2, 4)), RunSize(3, {"in": 2, "p-by": 2})),
    ],
)
def test_a_run_begins_with_the_size_of_the_last_one(before: int | None, asked: Autosize, expected: RunSize) -> None:
    system, plan = ProducingSystem(), planned()
    system.admin().create("in", 2)
    if before is not None:
        begin_run(plan, system, before, "stopped")
    assert first_size(plan, system, asked) == expected
    assert stages_of(plan).keys() == expected.elasticity.keys()


def test_containers_share_the_processors_of_this_machine_alone() -> None:
    assert shared_processors(elsewhere=True) is None
    assert (shared_processors(elsewhere=False) or 0) >= 1
