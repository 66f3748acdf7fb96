"""The tasks of a silent container go to others, and back once it is there again."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest

from engines.live_containers import LiveContainers, counting, in_one_thread, rushing
from engines.sending import ProducingSystem, stores_of
from engines.targets import contents, write
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import run
from fluvial.runtime.local.coordination.assignments import Assignment, DrainRequest
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.coordination.run_ends import ends_now
from fluvial.runtime.local.handover.fail_over import even_out, fail_over, is_uneven, without
from fluvial.runtime.local.handover.standbys import standbys_of

PARTITIONS = 6
KEYS = [f"k{number}".encode() for number in range(24)]
BOTH = pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])


def add(system: ProducingSystem) -> None:
    """One message of each key."""
    write(system, {"in": [[(key, b"m", 0, ()) for key in KEYS[at::PARTITIONS]] for at in range(PARTITIONS)]})


@pytest.fixture
def system() -> Iterator[ProducingSystem]:
    made = ProducingSystem()
    add(made)
    with in_one_thread(made):
        yield made


def begun(system: ProducingSystem, containers: int, guarantee: Guarantee = "exactly_once") -> LiveContainers:
    live = LiveContainers(system, counting(), containers, Settings(guarantee=guarantee))
    for number in range(containers):
        live.start(number)
    live.rest()
    return live


def counts(live: LiveContainers) -> Counter[str]:
    """What is counted of each key once a run to the end has fired the windows."""
    live.close()
    with stores_of(live.system):
        run(live.pipeline, system=live.system, until="end", settings=live.settings)
    return Counter((value or b"").decode() for _, value, _, _ in contents(live.system, "out"))


@BOTH
def test_the_tasks_of_one_that_has_died_go_on_at_their_standbys(system: ProducingSystem, guarantee: Guarantee) -> None:
    with closing(begun(system, 3, guarantee)) as live:
        gone, standbys = live.tasks_of(1), standbys_of(live._assignment(), 1)
        live.kill(1)
        add(system)
        live.suspect(1)
        live.rest()
        for task in gone:
            assert task in live.tasks_of(standbys[task][0])
        assert sum(len(live.tasks_of(number)) for number in (0, 2)) == PARTITIONS
        assert counts(live) == Counter(f"{key.decode()} 2" for key in KEYS)


@BOTH
def test_what_one_writes_that_stood_still_is_refused(system: ProducingSystem, guarantee: Guarantee) -> None:
    with closing(begun(system, 2, guarantee)) as live:
        live.standing.add(1)
        add(system)
        live.suspect(1)
        live.rest()
        live.standing.clear()
        while live.tasks_of(1):  # it goes on until it commits, and is started again
            live.turn(1)
        assert len(live.tasks_of(0)) == PARTITIONS
        if guarantee == "exactly_once":
            assert counts(live) == Counter(f"{key.decode()} 2" for key in KEYS)


def test_it_is_back_without_tasks_until_they_are_evened_out(system: ProducingSystem) -> None:
    with closing(begun(system, 2)) as live:
        live.kill(1)
        live.suspect(1)
        live.rest()
        assert not even_out(live.plan, system, live.run, [0, 1], rushing())  # it is not back yet
        live.start(1)
        live.rest()
        assert live.tasks_of(1) == []
        assert not even_out(live.plan, system, live.run, [0], rushing())  # by its heartbeats it is not
        assert even_out(live.plan, system, live.run, [0, 1], rushing())
        live.rest()
        assert [len(live.tasks_of(number)) for number in (0, 1)] == [3, 3]
        assert not even_out(live.plan, system, live.run, [0, 1], rushing())


def test_one_without_tasks_is_left_alone_and_so_is_one_that_has_ended(system: ProducingSystem) -> None:
    with closing(begun(system, 2)) as live:
        live.kill(1)
        assert fail_over(live.plan, system, live.run, 1, [0], 1, rushing())
        assert not fail_over(live.plan, system, live.run, 1, [0], 1, rushing())
        assert not fail_over(live.plan, system, "another run", 0, [1], 1, rushing())
        assert not fail_over(live.plan, system, live.run, 0, [], 1, rushing())


def test_those_without_a_standby_that_is_alive_go_to_whoever_has_the_fewest() -> None:
    tasks = {f"a/{number}": number % 3 for number in range(9)}
    last = Assignment(generation=1, containers=3, tasks=tasks, run="r", until="stopped")
    after = without(last, 2, [0, 1], 0)
    assert Counter(after.tasks.values()) in ({0: 5, 1: 4}, {0: 4, 1: 5})
    assert {task for task, owner in after.tasks.items() if owner != tasks[task]} == {"a/2", "a/5", "a/8"}
    assert (after.generation, after.began, after.began_with) == (2, 1, tasks)
    assert without(after, 2, [0, 1], 0) == after


def test_tasks_are_uneven_where_one_has_fewer_than_its_share() -> None:
    last = Assignment(generation=1, containers=2, tasks={"a/0": 0, "a/1": 0}, run="r", until="stopped")
    assert is_uneven(last)
    assert not is_uneven(Assignment(generation=1, containers=2, tasks={"a/0": 0}, run="r", until="stopped"))


def test_what_one_has_that_another_was_to_get_goes_to_one_that_is_alive() -> None:
    tasks = {"a/0": 0, "a/1": 3, "a/2": 2, "a/3": 3}
    last = Assignment(generation=2, containers=4, tasks=tasks, run="r", until="stopped")
    owners = {"a/0": 0, "a/1": 0, "a/2": 2, "a/3": 1}
    after = without(last, 0, [1, 2], 1, owners)
    assert after.tasks["a/0"] in (1, 2)
    assert after.tasks["a/1"] in (1, 2)  # 3 has not started, and is not to get what nobody has
    assert (after.tasks["a/2"], after.tasks["a/3"]) == (2, 3)  # their owners are alive, and wait for 3


def test_where_all_that_are_alive_are_too_many_the_run_gets_the_first_of_them() -> None:
    last = Assignment(generation=2, containers=1, tasks={"a/0": 0, "a/1": 0}, run="r", until="stopped", most=3)
    after = without(last, 0, [1, 2], 1, last.tasks, copying=[1, 2])
    assert (after.containers, after.tasks) == (2, {"a/0": 1, "a/1": 1})


def test_a_standby_whose_copy_has_failed_is_the_last_to_get_the_task() -> None:
    tasks = {f"a/{number}": number % 3 for number in range(6)}
    last = Assignment(generation=1, containers=3, tasks=tasks, run="r", until="stopped")
    (warm,) = standbys_of(last, 1)["a/0"]
    after = without(last, 0, [1, 2], 1, tasks, lacking=lambda of: [warm] if "a/0" in of else [])
    assert after.tasks["a/0"] == 3 - warm


def test_a_run_that_drains_ends_once_those_that_go_on_for_a_dead_one_have_its_tasks(system: ProducingSystem) -> None:
    with closing(begun(system, 3)) as live:
        add(system)
        ends = ends_now(live.plan, system)
        Coordinator(system, live.plan.name).write(DrainRequest(run=live.run, ends=ends))
        live.kill(1)
        live.suspect(1)
        system.restores = False  # it takes long
        for number in (0, 2) * 20:
            live.turn(number)
            assert not live.alive[number][0].finished, "the tasks of the dead one would be left"
        system.restores = True
        for number in (0, 2) * 100:
            if not live.alive[number][0].finished:
                live.turn(number)
        assert all(live.alive[number][0].finished for number in (0, 2))
        assert sum(len(live.tasks_of(number)) for number in (0, 2)) == PARTITIONS
        written = Counter((value or b"").decode() for _, value, _, _ in contents(system, "out"))
        assert written == Counter(f"{key.decode()} 2" for key in KEYS)


def test_tasks_of_a_run_that_drains_are_not_evened_out(system: ProducingSystem) -> None:
    with closing(begun(system, 2)) as live:
        live.kill(1)
        live.suspect(1)
        live.rest()
        live.start(1)
        live.rest()
        Coordinator(system, live.plan.name).write(DrainRequest(run=live.run, ends=ends_now(live.plan, system)))
        assert not even_out(live.plan, system, live.run, [0, 1], rushing())
        assert live.tasks_of(1) == []
