"""Changing the number of containers of a pipeline while it runs: what is decided, waited for, and refused."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from threading import Event, Thread
from typing import Any
from unittest.mock import patch

import pytest

from engines.live_containers import LiveContainers, in_one_thread, rushing
from engines.sending import ProducingSystem
from engines.targets import write
from explained import assert_explains, error_of
from fluvial.dsl import FluvialError, PlanError, SystemProblem, UnsupportedError, UsageError
from fluvial.dsl.pipeline import Pipeline
from fluvial.planner import Settings
from fluvial.runtime import scale
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.coordination.assignments import Assignment, DrainRequest, Presence
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.coordination.membership import begin_run
from fluvial.runtime.local.coordination.run_ends import ends_now
from fluvial.runtime.local.handover import scaling
from fluvial.runtime.systems import LogSystem, System
from waiting import wait_until

SECOND = timedelta(seconds=1)
LONG = timedelta(seconds=60)


def pipeline(name: str = "p") -> Pipeline:
    made = Pipeline(name)
    made.stream("in", value=str, key=str).send_to("out", value=str)
    return made


@pytest.fixture
def system() -> Iterator[ProducingSystem]:
    made = ProducingSystem()
    write(made, {"in": [[(b"k", b"m", 0, ())] for _ in range(4)]})
    with in_one_thread(made), patch.object(scaling, "ANSWER_SECONDS", 0.5):
        yield made


@contextmanager
def running(system: ProducingSystem, containers: int, most: int = 9) -> Iterator[LiveContainers]:
    """Containers in a thread, as whoever starts them lets them run: as many as the run has, and at most so many."""
    ended, failed = Event(), list[BaseException]()
    with closing(LiveContainers(system, pipeline(), containers, Settings())) as live:

        def step() -> None:
            try:
                while not ended.is_set():
                    for number in range(min(assignment(system).containers, most)):
                        if number not in live.alive:
                            live.start(number)
                    for number in [*live.alive]:
                        live.turn(number)
                    for number in live.ended:
                        live.kill(number)
            except BaseException as error:
                failed.append(error)

        for number in range(containers):
            live.start(number)
        thread = Thread(target=step)
        thread.start()
        try:
            yield live
        finally:
            ended.set()
            thread.join()
    assert not failed, failed


def assignment(system: System) -> Assignment:
    found = Coordinator(system, "p", rushing()).read()[0].assignment
    assert found is not None
    return found


def test_a_dry_run_lists_the_tasks_that_would_move_and_changes_nothing(system: ProducingSystem) -> None:
    with running(system, 2):
        before = assignment(system)
        moves = scale(pipeline(), system=system, containers=4, dry_run=True)
        assert len(moves) == 2
        assert {move.container for move in moves} == {0, 1}
        assert {move.to for move in moves} == {2, 3}
        assert assignment(system) == before


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1)])
def test_it_returns_once_each_task_is_with_its_container(system: ProducingSystem, before: int, after: int) -> None:
    said: list[str] = []
    with running(system, before) as live:
        moves = scale(pipeline(), system=system, containers=after, timeout=LONG, say=said.append)
        assert live.settled
        assert {move.to for move in moves} <= {*range(after)}
        assert assignment(system).containers == after
        assert scale(pipeline(), system=system, containers=after, timeout=LONG) == []
    assert said[0] == f"{len(moves)} tasks of 4 to move"


def test_tasks_are_split_and_merged(system: ProducingSystem) -> None:
    said: list[str] = []
    with running(system, 2) as live:
        moves = scale(pipeline(), system=system, elasticity=2, timeout=LONG, say=said.append)
        assert live.settled
        assert {move.task for move in moves} == {f"in/{number}-{bucket}-2" for number in range(4) for bucket in (0, 1)}
        assert (assignment(system).containers, {*assignment(system).tasks}) == (2, {move.task for move in moves})
        assert scale(pipeline(), system=system, containers=2, timeout=LONG) == []
        assert scale(pipeline(), system=system, containers=3, elasticity={"in": 2}, dry_run=True)
        merged = scale(pipeline(), system=system, containers=1, elasticity=1, timeout=LONG)
        assert {move.task for move in merged} == {"in/0", "in/1", "in/2", "in/3"}
        assert {move.to for move in merged} == {0}
    assert said[0] == "8 tasks of 8 to move"


@pytest.mark.usefixtures("hurried")
def test_a_split_that_comes_too_late_is_taken_back(system: ProducingSystem) -> None:
    with running(system, 2, most=2) as live:
        before = assignment(system)
        error = refusal(SystemProblem, system, elasticity=2, timeout=SECOND)  # nobody starts the third one
        assert_explains(error, "after 1 s", None, "goes back", "--timeout")
        assert (assignment(system).tasks, assignment(system).containers) == (before.tasks, 2)
        wait_until(lambda: live.settled, "tasks that are merged again")


def refusal(kind: type[FluvialError], system: System, *, of: Pipeline | None = None, **given: Any) -> FluvialError:
    arguments: dict[str, Any] = {"containers": 3, **given}
    return error_of(lambda: scale(of or pipeline(), system=system, **arguments), kind)


@pytest.fixture
def hurried() -> Iterator[None]:
    """Whoever waits looks around at once."""
    with patch.object(scaling, "ABSENT_SECONDS", 0.0), patch.object(scaling, "LOOK_SECONDS", 0.0):
        yield


@pytest.mark.usefixtures("hurried")
def test_after_a_time_it_goes_back(system: ProducingSystem) -> None:
    said: list[str] = []
    with running(system, 2, most=2) as live:  # nobody starts the third one
        before = assignment(system)
        error = refusal(SystemProblem, system, timeout=SECOND, say=said.append)
        assert_explains(error, "after 1 s 1 task of pipeline 'p' have not moved", None, "goes back", "--timeout")
        assert (assignment(system).tasks, assignment(system).containers) == (before.tasks, 2)
        assert live.settled
    assert any("container 2 of 3 has not started" in line for line in said)
    assert said[-1] == "pipeline 'p' goes back to 2 containers"


@pytest.mark.usefixtures("hurried")
def test_a_change_that_nobody_starts_containers_for_is_taken_back_by_another(system: ProducingSystem) -> None:
    with running(system, 2, most=2) as live:
        live.scale(4)  # by a process that has been killed since
        assert not scale(pipeline(), system=system, containers=2, timeout=LONG)
        assert assignment(system).containers == 2


def test_another_change_meanwhile_is_reported_and_left_alone(system: ProducingSystem) -> None:
    with running(system, 2, most=2) as live:
        error = refusal(SystemProblem, system, say=lambda _: live.scale(4))
        assert_explains(error, "another process has scaled pipeline 'p'", None, "one change at a time", "try again")
        assert assignment(system).containers == 4


@pytest.mark.usefixtures("hurried")
def test_a_container_that_is_taken_for_dead_meanwhile_is_reported(system: ProducingSystem) -> None:
    with running(system, 2, most=2) as live:  # nobody starts the third one

        def lose(_: str) -> None:
            if 1 not in live.standing:
                live.standing.add(1)
                live.suspect(1)

        error = refusal(SystemProblem, system, say=lose)
        wrong = "container 1 of pipeline 'p' was taken for dead meanwhile, and others have its tasks"
        assert_explains(error, wrong, None, "containers that are alive while tasks move", "call it again")
        assert 1 not in assignment(system).tasks.values()
        live.standing.clear()


@pytest.mark.usefixtures("hurried")
def test_a_pipeline_that_is_stopped_meanwhile_is_not_waited_for(system: ProducingSystem) -> None:
    with running(system, 2, most=0) as live, patch.object(scaling, "ALIVE_SECONDS", 0.0):
        error = refusal(SystemProblem, system, say=lambda _: live.standing.update([0, 1]))
        assert_explains(error, "no container of pipeline 'p' runs any more", None, "a pipeline that runs", "start it")


@pytest.mark.usefixtures("hurried")
def test_the_tasks_of_a_container_that_is_gone_are_handed_over_in_its_place(system: ProducingSystem) -> None:
    said: list[str] = []
    with running(system, 3) as live, patch.object(scaling, "ALIVE_SECONDS", 0.0):
        live.standing.add(2)  # its process is paused
        paused = live.alive[2][0]
        scale(pipeline(), system=system, containers=2, timeout=LONG, say=said.append)
        assert live.settled
        wait_until(lambda: not any(live.is_moving(number) for number in (0, 1)), "the others wait for nothing")
        # It wakes up, and what it has processed meanwhile does not count.
        write(system, {"in": [[(b"k", b"m", 1, ())] for _ in range(4)]})
        error = error_of(lambda: [paused.turn() for _ in range(50)], SystemProblem)
        assert "was taken for dead, since it did not answer, and others have its tasks" in str(error)
        live.kill(2)
        live.standing.clear()
    assert "container 2 is gone: others go on with its 1 task" in said


@pytest.mark.parametrize(
    ("given", "wrong", "expected"),
    [
        ({"containers": 0}, "containers=0", "a number of containers"),
        ({"containers": True}, "containers=True", "a number of containers"),
        ({"timeout": timedelta(0)}, "timeout=datetime.timedelta(0)", "a timedelta above 0"),
    ],
    ids=["none", "no number", "no time"],
)
def test_wrong_arguments_are_refused(system: ProducingSystem, given: dict[str, Any], wrong: str, expected: str) -> None:
    assert_explains(refusal(UsageError, system, **given), wrong, None, expected)


def test_a_pipeline_that_does_not_run_is_refused(system: ProducingSystem) -> None:
    error = refusal(SystemProblem, system)
    assert_explains(error, "no container of it runs", None, "a pipeline that runs", "start it")


def test_a_system_without_changelogs_is_refused(tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    write(log, {"in": [[]]})
    assert_explains(refusal(UnsupportedError, log), "its state has no changelog", None, "on Kafka", "stop it")


@pytest.mark.parametrize(
    ("until", "wrong", "expected"),
    [
        ("end", "ends by itself, at 'end'", "a run until it is stopped"),
        ("stopped", "containers 0, 1 of 2 have not started yet", "a pipeline that runs"),
    ],
)
def test_a_run_that_cannot_be_scaled_is_refused(system: ProducingSystem, until: str, wrong: str, expected: str) -> None:
    begin_run(checked_plan(pipeline(), system, Settings()), system, 2, until)
    of_before = Presence(container=0, generation=1, run="before", incarnation="i", state="running")

    def answer(*_: object) -> None:
        system.on_send = on_send
        Coordinator(system, "p").write(of_before)

    on_send, system.on_send = system.on_send, answer
    with patch.object(scaling, "ABSENT_SECONDS", 0.0):
        assert_explains(refusal(SystemProblem, system), wrong, None, expected)


def test_a_run_that_was_told_to_drain_is_refused(system: ProducingSystem) -> None:
    with running(system, 1) as live:
        Coordinator(system, "p").write(DrainRequest(run=live.run, ends=ends_now(live.plan, system)))
        assert_explains(
            refusal(SystemProblem, system), "was told to drain, and cannot be scaled", None, "a run until it is stopped"
        )


def test_another_pipeline_than_the_one_that_runs_is_refused(system: ProducingSystem) -> None:
    other = Pipeline("p")
    other.stream("in", value=str, key=str).partition_by(str, id="by", key_type=str).send_to("out", value=str)
    with running(system, 1):
        error = refusal(PlanError, system, of=other)
    assert_explains(error, "has other tasks than the pipeline has now", None, "as the run has them", "load the version")
