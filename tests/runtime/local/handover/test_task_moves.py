"""Tasks that go from one container to another while both run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import count as counter
from threading import Event
from unittest.mock import patch

import pytest
from msgspec import structs

from engines.live_containers import LiveContainers, counting, in_one_thread
from engines.sending import KillableStore, ProducingAdmin, ProducingSystem, stores_of
from engines.targets import contents, write
from fluvial.dsl import Pipeline, SystemProblem, TakenOver, count, unbounded
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.planner.task_assignment import StageTasks, tasks_of
from fluvial.runtime import run
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.container import Container
from fluvial.runtime.local.coordination.assignments import Presence, read_record
from fluvial.runtime.local.coordination.membership import ContainerId
from fluvial.runtime.local.handover import warm_up
from fluvial.runtime.systems.partitioner import partition_of

PARTITIONS = 4
USERS = [f"user{number}" for number in range(20)]


def add(system: ProducingSystem, at: int) -> None:
    """One message of each user."""
    parts: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    for user in USERS:
        parts[partition_of(user.encode(), PARTITIONS)].append((user.encode(), b"m", at, ()))
    write(system, {"in": parts})


@pytest.fixture
def system() -> Iterator[ProducingSystem]:
    made = ProducingSystem()
    add(made, 0)
    with in_one_thread(made):
        yield made


def of(system: ProducingSystem, containers: int, guarantee: Guarantee = "exactly_once") -> LiveContainers:
    live = LiveContainers(system, counting(), containers, Settings(guarantee=guarantee))
    for number in range(containers):
        live.start(number)
    return live


def turns(container: Container) -> None:
    for _ in range(50):
        container.turn()


def counts(system: ProducingSystem, live: LiveContainers) -> Counter[str]:
    """What is counted of each user once a run to the end has fired the windows."""
    live.close()
    with stores_of(system):
        run(live.pipeline, system=system, until="end", settings=live.settings)
    return Counter((value or b"").decode() for _, value, _, _ in contents(system, "out"))


GUARANTEES = pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])


@GUARANTEES
@pytest.mark.parametrize("change", [(1, 3), (3, 1), (2, 4), (4, 2)])
def test_tasks_move_with_their_state(system: ProducingSystem, change: tuple[int, int], guarantee: Guarantee) -> None:
    before, after = change
    with closing(of(system, before, guarantee)) as live:
        live.rest()
        live.scale(after)
        for number in range(before, after):
            live.start(number)
            assert live.tasks_of(number) == []
        add(system, 1)
        live.rest()
        has = {number: live.tasks_of(number) for number in live.alive}
        assert sorted(task for tasks in has.values() for task in tasks) == [f"in/{n}" for n in range(PARTITIONS)]
        assert all(bool(has[number]) == (number < after) for number in has)
        assert {*live.ended} == {*range(after, before)}
        add(system, 2)
        live.rest()
        assert counts(system, live) == Counter(f"{user} 3" for user in USERS)


def test_a_task_goes_on_where_it_is_until_its_next_container_is_there(system: ProducingSystem) -> None:
    with closing(of(system, 1)) as live:
        live.scale(2)
        add(system, 1)
        for _ in range(50):
            live.turn(0)
        assert len(live.tasks_of(0)) == PARTITIONS
        assert not live.settled
        live.start(1)
        live.rest()
        assert [len(live.tasks_of(number)) for number in (0, 1)] == [2, 2]
        assert counts(system, live) == Counter(f"{user} 2" for user in USERS)


def test_a_change_that_is_taken_back_leaves_tasks_where_they_were(system: ProducingSystem) -> None:
    with closing(of(system, 2)) as live:
        live.rest()
        before = live.tasks_of(0), live.tasks_of(1)
        live.scale(3)
        live.turn(0)
        live.scale(2)
        live.rest()
        assert (live.tasks_of(0), live.tasks_of(1)) == before


def test_a_container_that_is_started_again_has_the_tasks_that_it_was_handed_over(system: ProducingSystem) -> None:
    with closing(of(system, 1)) as live:
        live.scale(2)
        live.start(1)
        live.rest()
        before = live.tasks_of(1)
        live.start(1)
        live.lose_store(0)
        live.start(0)
        assert live.tasks_of(1) == before
        add(system, 1)
        live.rest()
        assert counts(system, live) == Counter(f"{user} 2" for user in USERS)


def test_a_disk_without_room_ends_nothing_that_runs(system: ProducingSystem, caplog: pytest.LogCaptureFixture) -> None:
    """The task stays where it is until its next container has restored it."""
    with closing(of(system, 1)) as live:
        live.rest()
        live.scale(2)
        live.start(1)
        with patch.object(KillableStore, "write", side_effect=OSError(28, "No space left on device")):
            for _ in range(20):
                live.turn(1)
        assert len(live.tasks_of(0)) == PARTITIONS
        assert "tries again in 10 s; until then their containers go on with them" in caplog.text
        live.rest()
        assert [len(live.tasks_of(number)) for number in (0, 1)] == [2, 2]
        assert counts(system, live) == Counter(f"{user} 1" for user in USERS)


def test_others_go_on_while_the_store_of_a_task_that_has_left_is_written(system: ProducingSystem) -> None:
    written, in_time = Event(), list[bool]()
    with closing(of(system, 1)) as live:
        live.rest()
        live.scale(2)
        live.start(1)
        with patch.object(KillableStore, "close", lambda _: in_time.append(written.wait(5))):
            live.rest()
            add(system, 1)
            live.rest()
            assert [len(live.tasks_of(number)) for number in (0, 1)] == [2, 2]
            written.set()
        assert counts(system, live) == Counter(f"{user} 2" for user in USERS)
    assert in_time == [True, True]


def test_a_container_that_was_replaced_hands_nothing_over(system: ProducingSystem) -> None:
    """It wakes up after another process has its number, and its tasks: what it commits is refused."""
    with closing(of(system, 1)) as live:
        live.rest()
        zombie = live.alive.pop(0)
        live.system._memory.claims.clear()
        live.scale(2)
        live.start(0)
        live.start(1)
        add(system, 1)
        with closing(zombie[1]), pytest.raises((SystemProblem, TakenOver)):
            turns(zombie[0])
        live.rest()
        assert counts(system, live) == Counter(f"{user} 2" for user in USERS)


def test_containers_join_one_after_the_other_by_their_numbers(system: ProducingSystem) -> None:
    with closing(of(system, 1)) as live:
        for number in (1, 3):
            live.join(number)
            for _ in range(20):
                live.turn(number)
        live.join(2)
        live.rest()
        assert all(len(live.tasks_of(number)) == 1 for number in range(PARTITIONS))
        add(system, 1)
        live.join(1)  # it was started again
        live.rest()
        assert all(len(live.tasks_of(number)) == 1 for number in range(PARTITIONS))
        assert counts(system, live) == Counter(f"{user} 2" for user in USERS)


def test_one_that_joined_and_is_too_many_stays_without_tasks(system: ProducingSystem) -> None:
    """Kubernetes would start it again, and it would join again."""
    with closing(of(system, 1)) as live:
        live.join(1)
        live.rest()
        live.scale(1)
        live.rest()
        assert (live.tasks_of(1), live.ended) == ([], {})
        live.scale(2)
        live.rest()
        assert len(live.tasks_of(1)) == 2


def test_the_first_that_joins_begins_a_run(system: ProducingSystem) -> None:
    live = LiveContainers(system, counting(), 0, Settings(guarantee="exactly_once"))
    with closing(live):
        live.join(0)
        live.rest()
        live.join(1)
        live.rest()
        assert [len(live.tasks_of(number)) for number in (0, 1)] == [2, 2]
        assert counts(system, live) == Counter(f"{user} 1" for user in USERS)


def test_one_that_joins_with_other_tasks_begins_a_run_of_its_own(system: ProducingSystem) -> None:
    other = Pipeline("p")
    counted = other.stream("in", value=str, key=str).window(unbounded(), count(), id="n")
    told = counted.map(lambda pane: f"{pane.key} {pane.value}")
    told.partition_by(str, id="by", key_type=str, value=str).send_to("out")
    with closing(of(system, 2)) as live:
        live.rest()
        system._memory.claims.clear()
        with closing(LiveContainers(system, other, 0, live.settings)) as after:
            after.join(1)
            assert "p-by/1" in after.tasks_of(1)
            with pytest.raises(TakenOver):
                turns(live.alive[0][0])


def test_what_a_container_handed_over_while_its_successor_joined_is_not_run_twice(system: ProducingSystem) -> None:
    """The new process has read the assignment, and then stands still, while the old one follows another."""
    with closing(of(system, 1)) as live:
        live.rest()
        zombie = live.alive.pop(0)
        live.system._memory.claims.clear()

        def stands_still(_: str, records: Sequence[Record]) -> None:
            record = read_record(*records[0][:2])
            if isinstance(record, Presence) and record.state == "starting":
                system.on_send = on_send
                live.scale(2)
                live.start(1)
                for _turn in range(20):
                    live.turn(1)
                    zombie[0].turn()

        on_send, system.on_send = system.on_send, stands_still
        live.start(0)
        assert system.on_send is on_send
        assert [len(live.tasks_of(number)) for number in (0, 1)] == [2, 2]
        zombie[1].close()


def by_hand(live: LiveContainers, number: int, containers: int) -> None:
    """Start a container that no supervisor has begun a run for."""
    live.run, live.containers = "", containers
    live.start(number)


def test_a_container_that_is_started_by_hand_joins_a_run_that_has_got_more(system: ProducingSystem) -> None:
    live = LiveContainers(system, counting(), 2, Settings(guarantee="exactly_once"))
    with closing(live):
        for number in range(2):
            by_hand(live, number, 2)
        live.scale(3)
        by_hand(live, 2, 3)
        live.rest()
        assert [len(live.tasks_of(number)) for number in range(3)] == [2, 1, 1]
        by_hand(live, 0, 3)
        add(system, 1)
        live.rest()
        assert [len(live.tasks_of(number)) for number in range(3)] == [2, 1, 1]
        assert counts(system, live) == Counter(f"{user} 2" for user in USERS)


def test_containers_that_are_started_by_hand_leave_no_task_to_one_that_is_gone(system: ProducingSystem) -> None:
    live = LiveContainers(system, counting(), 2, Settings(guarantee="exactly_once"))
    with closing(live):
        for number in range(3):
            by_hand(live, number, 3)
        live.scale(2)
        live.close()
        for number in range(2):
            by_hand(live, number, 2)
        live.rest()
        assert [len(live.tasks_of(number)) for number in range(2)] == [2, 2]


def until_a_task_leaves(live: LiveContainers, number: int) -> None:
    """Let a container take turns until its next commit is to hand a task over."""
    for _ in range(50):
        if any(task.leaves for task in live.alive[number][0]._tasks):
            return
        live.turn(number)
    raise AssertionError("no task leaves")


def test_a_task_that_is_handed_over_as_the_change_is_taken_back_comes_back(system: ProducingSystem) -> None:
    with closing(of(system, 1)) as live:
        live.rest()
        live.scale(2)
        live.start(1)
        for _ in range(3):
            live.turn(1)
        until_a_task_leaves(live, 0)
        live.scale(1)
        for _ in range(5):
            live.turn(1)
        assert not live.ended
        add(system, 1)
        live.rest()
        assert {*live.ended} == {1}
        assert counts(system, live) == Counter(f"{user} 2" for user in USERS)


def test_a_task_that_is_handed_over_by_an_earlier_assignment_goes_on_to_where_the_last_one_wants_it(
    system: ProducingSystem,
) -> None:
    with closing(of(system, 2)) as live:
        live.rest()
        live.scale(1)
        for _ in range(3):
            live.turn(0)
        until_a_task_leaves(live, 1)
        live.scale(2)
        for _ in range(5):
            live.turn(0)
        add(system, 1)
        live.rest()
        assert [len(live.tasks_of(number)) for number in (0, 1)] == [2, 2]
        assert counts(system, live) == Counter(f"{user} 2" for user in USERS)


def test_a_task_that_was_handed_over_is_not_taken_again_while_brokers_hide_its_last_commit(
    system: ProducingSystem,
) -> None:
    with closing(of(system, 1)) as live:
        live.rest()
        live.scale(2)
        live.start(1)
        for _ in range(3):
            live.turn(1)
        until_a_task_leaves(live, 0)
        before = system.admin().checkpoints("p")
        live.turn(0)
        gone = {f"in/{number}" for number in range(PARTITIONS)} - {*live.tasks_of(0)}
        live.scale(3)
        with patch.object(ProducingAdmin, "checkpoints", lambda *_: before):
            live.turn(0)
        assert gone
        assert not gone & {*live.tasks_of(0)}


def test_a_restore_waits_for_the_changelogs_of_a_checkpoint_that_brokers_show_already(system: ProducingSystem) -> None:
    """The markers of a transaction come to its partitions one by one."""
    looks = counter()
    ends = ProducingAdmin.ends

    def late(admin: ProducingAdmin, stream: str) -> list[int]:
        hidden = "changelog" in stream and next(looks) < 3
        return [0] * PARTITIONS if hidden else ends(admin, stream)

    with closing(of(system, 1)) as live:
        live.rest()
        live.scale(2)
        live.start(1)
        with patch.object(ProducingAdmin, "ends", late):
            live.turn(1)
        live.rest()
        assert next(looks) > 3
        assert [len(live.tasks_of(number)) for number in (0, 1)] == [2, 2]


def test_tasks_move_where_every_restore_takes_long(system: ProducingSystem) -> None:
    """By a clock that rushes none takes less than a minute, and none gets shorter."""
    with closing(of(system, 1)) as live, patch.object(warm_up, "READY_SECONDS", 0.5):
        live.rest()
        live.scale(2)
        live.start(1)
        live.rest()
        assert [len(live.tasks_of(number)) for number in (0, 1)] == [2, 2]


def test_no_task_is_handed_over_to_a_process_that_has_come_in_place_of_the_one_that_was_ready(
    system: ProducingSystem,
) -> None:
    with closing(of(system, 1)) as live:
        live.rest()
        live.scale(2)
        live.start(1)
        for _ in range(3):
            live.turn(1)
        live.kill(1)
        live.lose_store(1)
        live.start(1)
        for _ in range(20):
            live.turn(0)
        assert len(live.tasks_of(0)) == PARTITIONS
        live.rest()
        assert [len(live.tasks_of(number)) for number in (0, 1)] == [2, 2]


@GUARANTEES
@pytest.mark.parametrize("containers", [1, 2, 3])
@pytest.mark.parametrize(
    "elasticity",
    # The others go through these, too.
    [pytest.param([2], marks=pytest.mark.long), pytest.param([4], marks=pytest.mark.long), [4, 1], [2, 4, 2, 1]],
)
def test_tasks_are_split_and_merged_with_their_state(
    system: ProducingSystem, elasticity: list[int], containers: int, guarantee: Guarantee
) -> None:
    with closing(of(system, containers, guarantee)) as live:
        for number, factor in enumerate(elasticity, 1):
            live.rest()
            live.scale(containers, elasticity=factor)
            add(system, number)
            live.rest()
            tasks = [task for container in range(containers) for task in live.tasks_of(container)]
            assert sorted(tasks) == sorted(tasks_of({"in": StageTasks(PARTITIONS, factor)}))
            assert {*checkpoints_in(system, "p")} == {*tasks}
        settings = structs.replace(live.settings, elasticity=elasticity[-1])
        live.settings = settings
        assert counts(system, live) == Counter(f"{user} {len(elasticity) + 1}" for user in USERS)


@pytest.mark.parametrize("before", [1, 4])
@pytest.mark.parametrize("turns", [0, 60])
@pytest.mark.parametrize("number", [0, 2])
def test_a_container_that_joins_while_tasks_are_split_joins_the_run(
    system: ProducingSystem, number: int, turns: int, before: int
) -> None:
    with closing(LiveContainers(system, counting(), 0, Settings(guarantee="exactly_once"))) as live:
        for one in range(2):
            live.join(one)
        live.rest()
        if before > 1:
            live.scale(2, elasticity=before)
            live.rest()
        run = live._assignment().run
        live.kill(number)

        def split() -> None:
            live.scale(2, elasticity=2)
            live.containers = 2
            for _ in range(turns):
                for one in live.alive:
                    live.turn(one)

        live.start(number, ContainerId(number, 0), meanwhile=split)
        live.containers = max(2, number + 1)
        assert live._assignment().run == run
        live.rest()
        tasks = sorted(task for one in live.alive for task in live.tasks_of(one))
        assert tasks == sorted(tasks_of({"in": StageTasks(PARTITIONS, 2)}))
        live.settings = structs.replace(live.settings, elasticity=2)
        assert counts(system, live) == Counter(f"{user} 1" for user in USERS)


@pytest.mark.parametrize("batch", [1, 2])
def test_tasks_of_the_beginning_of_a_run_do_not_come_back_while_others_are_split(
    system: ProducingSystem, batch: int
) -> None:
    system.batch = batch  # whoever follows the checkpoints reads a part of each transaction
    settings = Settings(guarantee="exactly_once", elasticity=4)
    with closing(LiveContainers(system, counting(), 2, settings)) as live:
        for number in range(2):
            live.start(number)
        for factor in (1, 4, 1, 4):
            live.scale(2, elasticity=factor)
            live.rest()
        assert counts(system, live) == Counter(f"{user} 1" for user in USERS)
