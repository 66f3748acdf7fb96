"""The containers of a run watch each other: whatever dies, and whenever, the tasks are with one that is alive."""

from contextlib import ExitStack, closing
from dataclasses import replace
from datetime import timedelta
from random import Random

import pytest
from msgspec import structs

from engines.live_containers import counting
from engines.sending import ProducingSystem, RefusingSystem
from engines.targets import write
from fluvial.dsl import SystemProblem, TakenOver
from fluvial.planner import Settings
from fluvial.planner.stream_names import checkpoints as checkpoints_of
from fluvial.planner.stream_names import coordinator
from fluvial.planner.task_assignment import stages_with
from fluvial.runtime.launch import checked_plan
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint, checkpoints_in, encode
from fluvial.runtime.local.coordination.assignments import Assignment, CoordinatorState, Gone, moved, scaled
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.coordination.membership import ContainerId, MembershipGuard, begin_run, join
from fluvial.runtime.local.handover.fail_over_watch import FailOverWatch, begin_watch
from fluvial.runtime.local.handover.heartbeats import Heartbeats
from fluvial.runtime.local.handover.owners import owners_of
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems.errors import Fenced

TIMEOUT = timedelta(seconds=10)
STEP = 4.0
"""Less than half of the timeout: a container that does not hear itself for longer has stood still."""
PARTITIONS = 6


class Watching:
    """Containers of a run without any tasks in them, which send heartbeats and watch each other by a hand clock."""

    def __init__(self, containers: int, system: ProducingSystem | None = None) -> None:
        self.now = 0.0
        self.system = system or ProducingSystem()
        self.system.batch = 1000
        write(self.system, {"in": [[] for _ in range(PARTITIONS)]})
        self.machine = replace(THIS_MACHINE, clock=lambda: self.now, sleep=self.sleep)
        self.plan = checked_plan(counting(), self.system, Settings())
        self.system.admin().create(checkpoints_of("p"), 1, "checkpoints")
        self.run = begin_run(self.plan, self.system, containers, "stopped", self.machine)
        self.alive: dict[int, tuple[MembershipGuard, Heartbeats, FailOverWatch, ExitStack]] = {}
        for number in range(containers):
            self.start(number)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def start(self, number: int, *, sends: bool = True) -> None:
        """Start a process of a container, in place of one that is alive."""
        self.kill(number)
        stack, id = ExitStack(), ContainerId(number, 0)
        silence = TIMEOUT if sends else None
        guard = stack.enter_context(join(self.plan, self.system, id, "stopped", self.machine, self.owners_of, silence))
        guard.announce("running")
        heartbeats = Heartbeats(self.system, "p", self.run, number, TIMEOUT, self.machine, guard.incarnation)
        watch = FailOverWatch(self.plan, self.system, guard, heartbeats, 1, self.machine)
        if sends:
            self.alive[number] = guard, heartbeats, watch, stack

    def kill(self, number: int, *, ended: bool = False) -> None:
        """Let a container die, or end in good order."""
        if number in self.alive:
            _, heartbeats, _, stack = self.alive.pop(number)
            heartbeats.close(ended=ended)
            stack.close()

    def pass_time(self, steps: int = 1, but: tuple[int, ...] = (), blind: tuple[int, ...] = ()) -> None:
        """Let time pass, in which those that are alive act, except some that stand still; those that are `blind` send
        heartbeats, and do not look."""
        for _ in range(steps):
            self.now += STEP
            acting = [number for number in sorted(self.alive) if number not in but]
            for number in (*acting, *acting):
                _, heartbeats, _, _ = self.alive[number]
                heartbeats.turn_safely(0.0)
                assert heartbeats._clients is not None
                heartbeats._read(heartbeats._clients, 0.0)
            for number in acting:
                guard, _, watch, _ = self.alive[number]
                try:
                    guard.catch_up()
                except SystemProblem:  # taken for dead: whoever has started it starts it again
                    self.start(number)
                    continue
                if number not in blind:
                    watch.look_safely()
                assert not watch._failing
            self.hand_over()

    def hand_over(self) -> None:
        """Hand tasks over to where the assignment wants them, where both containers are alive."""
        owners, last, checkpoints = self.owners(), self.assignment(), checkpoints_in(self.system, "p")
        for task, owner in owners.items():
            if owner in self.alive and last.tasks[task] in self.alive and owner != last.tasks[task]:
                known = checkpoints.get(task, Checkpoint())
                moved = structs.replace(known, owner=(self.run, last.tasks[task]), number=known.number + 1)
                with closing(self.system.record_producer()) as producer:
                    producer.send(checkpoints_of("p"), 0, [(task.encode(), encode(moved), 0, ())])
                    producer.flush()

    def assignment(self) -> Assignment:
        last = Coordinator(self.system, "p", self.machine).read()[0].assignment
        assert last is not None
        return last

    def owners_of(self, assignment: Assignment) -> dict[str, int]:
        return {**owners_of(assignment, checkpoints_in(self.system, "p"))}

    def owners(self) -> dict[str, int]:
        return self.owners_of(self.assignment())

    def scale(self, containers: int) -> None:
        """Decide that there are so many containers."""

        def decide(state: CoordinatorState) -> Assignment:
            return scaled(state, stages_with(self.assignment().tasks), containers, self.owners())

        with Coordinator(self.system, "p", self.machine).decided(decide):
            pass

    def close(self) -> None:
        for number in [*self.alive]:
            self.kill(number)


@pytest.mark.parametrize(("containers", "first", "second"), [(3, 0, 1), (4, 3, 1), (3, 1, 2)])
def test_a_second_death_is_noticed_as_well(containers: int, first: int, second: int) -> None:
    with closing(Watching(containers)) as run:
        run.pass_time(2)
        run.kill(first)
        run.pass_time(6)
        assert {*run.owners().values()} <= {*run.alive}
        run.pass_time(20)
        run.kill(second)
        run.pass_time(8)
        assert {*run.owners().values()} <= {*run.alive}


def test_two_that_die_at_once_are_taken_over() -> None:
    with closing(Watching(4)) as run:
        run.pass_time(2)
        run.kill(0)
        run.kill(1)
        run.pass_time(8)
        assert {*run.owners().values()} == {2, 3}


@pytest.mark.parametrize("ended", [True, False])
def test_one_that_starts_after_another_has_died_notices_it(*, ended: bool) -> None:
    with closing(Watching(3)) as run:
        run.pass_time(2)
        run.kill(1)
        run.kill(0, ended=ended)
        run.start(0)
        run.pass_time(6)
        assert {*run.owners().values()} == {0, 2}


def test_one_that_dies_before_its_first_heartbeat_is_noticed() -> None:
    with closing(Watching(2)) as run:
        run.pass_time(2)
        run.kill(1, ended=True)
        run.start(1)
        run.kill(1)
        run.pass_time(6)
        assert {*run.owners().values()} == {0}


def test_one_that_ended_in_good_order_keeps_its_tasks() -> None:
    with closing(Watching(3)) as run:
        run.pass_time(2)
        run.kill(1, ended=True)
        run.start(0)  # one that has not heard it knows as well
        run.pass_time(10)
        assert {*run.owners().values()} == {0, 1, 2}


def test_what_a_dead_one_was_to_give_to_one_that_has_not_started_goes_to_one_that_is_alive() -> None:
    with closing(Watching(3)) as run:
        run.pass_time(2)
        run.scale(4)
        run.kill(0)
        run.pass_time(8)
        assert {*run.owners().values()} == {1, 2}


def test_containers_that_are_too_many_take_over_where_no_others_are_alive() -> None:
    with closing(Watching(3)) as run:
        run.scale(1)
        run.pass_time(2)
        assert {*run.owners().values()} == {0}
        run.kill(0)
        run.pass_time(6)
        assert {*run.owners().values()} == {1}
        assert run.assignment().containers == 2


def test_one_that_sends_no_heartbeats_is_left_alone() -> None:
    with closing(Watching(3)) as run:
        run.pass_time(2)
        run.start(1, sends=False)
        run.pass_time(10)
        assert {*run.owners().values()} == {0, 1, 2}


def test_one_that_has_just_started_again_gets_its_time() -> None:
    with closing(Watching(2)) as run:
        run.pass_time(2)
        run.kill(1)
        run.pass_time(2)
        run.start(1)
        run.pass_time(10)
        assert {*run.owners().values()} == {0, 1}
        assert run.assignment().generation == 1


def test_tasks_are_evened_out_once_all_are_alive_and_not_before() -> None:
    with closing(Watching(3)) as run:
        run.pass_time(2)
        run.kill(1)
        run.pass_time(6)
        before = run.assignment()
        run.start(1)
        run.alive.pop(1)[1]._close_clients()  # it runs by its presence, and sends no heartbeats
        run.pass_time(2)
        assert run.assignment() == before
        run.start(1)
        run.pass_time(30)
        assert {*run.owners().values()} == {0, 1, 2}


def test_the_next_one_decides_where_the_first_cannot() -> None:
    with closing(Watching(3)) as run:
        run.pass_time(2)
        guard, *_ = run.alive[0]
        run.kill(2)
        run.pass_time(14, blind=(0,))  # its brokers answer, but it stands still in a call, say
        assert {*run.owners().values()} == {0, 1}
        assert guard.assignment is not None


def test_one_that_was_taken_for_dead_decides_nothing_and_falls_silent() -> None:
    with closing(Watching(3)) as run:
        run.pass_time(2)
        guard, heartbeats, watch, _ = run.alive[0]
        gone = Gone(container=0, generation=1, run=run.run, incarnation=guard.incarnation)
        Coordinator(run.system, "p", run.machine).write(gone)
        run.kill(1)
        run.now += 2 * STEP
        heartbeats.turn_safely(0.0)
        run.now += STEP / 2
        heartbeats._silences |= {1: replace(heartbeats._silences[1], since=0.0)}
        watch.look()
        assert run.assignment().generation == 1
        assert heartbeats._stop.is_set()


def test_one_that_stood_still_learns_that_it_was_taken_for_dead() -> None:
    with closing(Watching(2)) as run:
        run.pass_time(2)
        guard = run.alive[1][0]
        for _ in range(6):
            run.pass_time(but=(1,))
        assert {*run.owners().values()} == {0}
        with pytest.raises(SystemProblem, match="was taken for dead, since no heartbeat of it came") as raised:
            guard.catch_up()
        assert not isinstance(raised.value, TakenOver)  # which would not be started again
        assert "heartbeat_timeout of 10 s" in str(raised.value)
        assert "a longer --heartbeat-timeout" in str(raised.value)


def test_one_that_is_fenced_before_others_have_said_so_learns_it_as_well() -> None:
    with closing(Watching(2)) as run:
        guard = run.alive[1][0]
        tasks = dict.fromkeys(run.assignment().tasks, 0)
        with Coordinator(run.system, "p", run.machine).decided(lambda state: moved_to(state, tasks)):
            pass
        with pytest.raises(SystemProblem, match="was taken for dead"), guard.fences_explained():
            raise Fenced("another has it", SystemProblem("transaction.timeout.ms"))


def moved_to(state: CoordinatorState, tasks: dict[str, int]) -> Assignment:
    assert state.assignment is not None
    return moved(state.assignment, tasks)


def test_what_fails_is_reported_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    with closing(Watching(2, system := RefusingSystem())) as run:
        run.pass_time(2)
        run.kill(1)
        _, heartbeats, watch, _ = run.alive[0]
        system.refuses = True
        for _ in range(6):
            run.now += STEP
            heartbeats.turn_safely(0.0)
            watch.look_safely()
        assert caplog.text.count("cannot look after the others, and tries again: no broker") == 1
        system.refuses = False
        run.pass_time(20)
        assert {*run.owners().values()} == {0}


def test_a_decision_that_takes_long_holds_no_heartbeat_up() -> None:
    with closing(Watching(3)) as run:
        run.pass_time(2)
        run.kill(2)

        written: list[str] = []

        def slow(stream: str, _: object) -> None:
            for _turn in range(6) if stream == coordinator("p") else ():
                run.now += STEP
                for number in (0, 1, 0, 1):
                    heartbeats = run.alive[number][1]
                    heartbeats.turn_safely(0.0)
                assert 0 in run.alive[1][1].alive
            written.append(stream)

        run.system.on_send = slow
        run.pass_time(4)
        assert coordinator("p") in written
        assert not {*run.alive[1][1].silent} - {2}


def test_it_runs_in_threads() -> None:
    run = Watching(2)
    with closing(run):
        run.machine = THIS_MACHINE
        guard = run.alive[0][0]
        watch = begin_watch(run.plan, run.system, Settings(standbys=1), guard)
        assert watch is not None
        watch.close(ended=True)
        watch.close()
    assert begin_watch(run.plan, run.system, Settings(), MembershipGuard(guard.membership)) is None


@pytest.mark.parametrize("seed", range(12))
def test_whatever_dies_and_whenever_tasks_end_up_with_one_that_is_alive(seed: int) -> None:
    random, most = Random(seed), 4
    with closing(Watching(most)) as run:
        for _ in range(14):
            number = random.randrange(most)
            match random.randrange(4):
                case 0 if len(run.alive) > 1:
                    run.kill(number)
                case 1:
                    run.start(number)
                case 2:
                    run.pass_time(4, but=(number,))
                case _:
                    run.pass_time(random.randrange(1, 6))
        run.start(random.randrange(most))
        run.pass_time(24)
        assert {*run.owners().values()} <= {*run.alive}
