"""Joining a run: which run and generation a container joins, who is refused, and who has to go."""

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.machines import hasty
from engines.several import Death, at_each_turn, dying_in
from engines.targets import contents, write
from explained import assert_explains, error_of
from fluvial.dsl import NoProgressError, Pipeline, SystemProblem, TakenOver
from fluvial.planner import Settings
from fluvial.runtime import Progress, Report, reset, set_offsets
from fluvial.runtime.launch import checked_plan, run_container
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.coordination.membership import (
    ContainerId,
    MembershipGuard,
    begin_run,
    join,
    transactional_id,
)
from fluvial.runtime.local.engine import run
from fluvial.runtime.report import OnProgress
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.errors import Fenced
from fluvial.runtime.systems.log.admin import LogAdmin
from waiting import wait_until

STREAM = "p-coordinator"


def pipeline() -> Pipeline:
    made = Pipeline("p")
    made.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out", value=str)
    return made


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    """A log with two messages in two partitions."""
    system = LogSystem(tmp_path, fsync=False)
    write(system, {"in": [[(None, b"a", 0, ())], [(None, b"b", 0, ())]]})
    return system


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def take(
    log: LogSystem, stack: ExitStack, number: int, containers: int, run: str = "", until: str = "end"
) -> MembershipGuard:
    plan = checked_plan(pipeline(), log, Settings())
    return stack.enter_context(join(plan, log, ContainerId(number, containers, run), until, hasty()))


def run_in(log: LogSystem, number: int, containers: int, progress: OnProgress | None = None) -> Report:
    at_once = Settings(commit_interval=timedelta(0))
    return run_container(pipeline(), "local", log, at_once, "end", progress, None, ContainerId(number, containers))


def test_containers_of_one_run_share_its_tasks_and_its_ends(log: LogSystem, stack: ExitStack) -> None:
    first = take(log, stack, 0, 2).membership
    write(log, {"in": [[(None, b"c", 0, ())], []]})
    second = take(log, stack, 1, 2).membership
    assert (first.run, first.generation) == (second.run, second.generation)
    assert first.tasks | second.tasks == {"in/0", "in/1", "p-by/0", "p-by/1"}
    assert len(first.tasks) == len(second.tasks) == 2
    assert first.ends == second.ends == {("in", 0): 1, ("in", 1): 1}


@pytest.mark.parametrize("until", ["end", "stopped"])
def test_the_inputs_of_a_run_until_it_is_stopped_end_by_a_drain_alone(
    log: LogSystem, stack: ExitStack, until: str
) -> None:
    assert take(log, stack, 0, 2, until=until).membership.ends_by_drain == (until == "stopped")


def test_a_container_that_died_goes_on_with_its_run(log: LogSystem, stack: ExitStack) -> None:
    take(log, stack, 0, 2)
    with ExitStack() as life:
        before = take(log, life, 1, 2).membership
    assert take(log, stack, 1, 2).membership.run == before.run


def run_both(log: LogSystem) -> list[Report]:
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda number: run_in(log, number, 2), range(2)))


def more(log: LogSystem) -> None:
    write(log, {"in": [[(None, b"c", 0, ())], []]})


def test_a_container_that_is_restarted_after_its_run_is_done_at_once(log: LogSystem, stack: ExitStack) -> None:
    run_both(log)
    before = Coordinator(log, "p").read()
    assert run_in(log, 0, 2).read == {}
    assert take(log, stack, 0, 2).membership.done
    assert Coordinator(log, "p").read() == before


def test_a_container_that_is_restarted_once_there_is_more_to_read_begins_another_run(
    log: LogSystem, stack: ExitStack
) -> None:
    run_both(log)
    before, _ = Coordinator(log, "p").read()
    assert before.assignment is not None
    more(log)
    again = take(log, stack, 0, 2)
    assert again.membership.run != before.assignment.run
    assert not again.membership.done
    assert again.membership.generation == before.assignment.generation
    assert again.absent == (1,)
    other = take(log, stack, 1, 2)
    assert other.membership.run == again.membership.run
    again.check()
    assert not again.absent
    assert [presence.container for presence in again.unfinished] == [1]
    other.announce("done")
    again.check()
    assert not again.unfinished


def test_a_run_is_finished_before_another_begins(log: LogSystem, caplog: pytest.LogCaptureFixture) -> None:
    def ends_as_the_second(guard: MembershipGuard, state: str) -> bool:
        return guard.membership.container == 1 and state == "done"

    with dying_in(MembershipGuard, "announce", ends_as_the_second), ThreadPoolExecutor(2) as pool:
        first, second = (pool.submit(run_in, log, number, 2) for number in range(2))
        first.result()
        assert isinstance(second.exception(), Death)
    more(log)
    assert run_in(log, 0, 2).read == {}
    assert "let container 1 finish the run, and then start all 2 containers again" in caplog.text
    assert run_in(log, 1, 2).read == {}
    assert sum(report.read["in"] for report in run_both(log) if report.read) == 1
    assert sorted(record[1] or b"" for record in contents(log, "out")) == [b"a", b"b", b"c"]


def test_a_pipeline_whose_checkpoints_are_gone_is_run_again(log: LogSystem, stack: ExitStack) -> None:
    run_both(log)
    with closing(log.producer()) as producer:
        producer.begin().commit("p", dict.fromkeys(log.admin().checkpoints("p"), b""))
    assert not take(log, stack, 0, 2).membership.done


def _reset_to(*given: Any, **options: Any) -> object:
    made, inputs = given
    return reset(made, to=inputs, **options)


@pytest.mark.parametrize("change", [set_offsets, _reset_to], ids=["offsets that are set", "a reset to the start"])
def test_a_pipeline_that_is_to_read_again_is_run_again(
    log: LogSystem, stack: ExitStack, change: Callable[..., object]
) -> None:
    run_both(log)
    change(pipeline(), {"in": "earliest"}, system=log, dry_run=True)
    with ExitStack() as brief:
        assert take(log, brief, 0, 2).membership.done
    change(pipeline(), {"in": "earliest"}, system=log)
    assert not any(take(log, stack, number, 2).membership.done for number in range(2))


@pytest.mark.slow
def test_a_container_that_comes_alone_says_whom_it_waits_for_and_gives_up(
    log: LogSystem, caplog: pytest.LogCaptureFixture
) -> None:
    run_both(log)
    more(log)
    plan = checked_plan(pipeline(), log, Settings())
    alone = ContainerId(0, 2)
    error = error_of(lambda: run(plan, log, Settings(), "end", None, None, alone, hasty(0.5)), NoProgressError)
    whom = "waits for container 1 of 2, which has not started in this run"
    assert_explains(error, whom, None, "progress", "start the containers that are missing")
    assert re.search(rf"container 0 {whom}: 1\d s so far, until nothing has moved for 300 s", caplog.text)
    assert {*run_both(log)[0].read} <= {"in", "p-by"}
    assert sorted(record[1] or b"" for record in contents(log, "out")) == [b"a", b"b", b"c"]


def test_a_run_to_another_end_is_another_run(log: LogSystem, stack: ExitStack) -> None:
    with ExitStack() as life:
        before = take(log, life, 0, 2, until="stopped").membership
    after = take(log, stack, 0, 2).membership
    assert (before.ends, after.ends) == (None, {("in", 0): 1, ("in", 1): 1})
    assert (before.generation, after.generation) == (1, 1)


def test_another_number_of_containers_is_another_generation(log: LogSystem, stack: ExitStack) -> None:
    with ExitStack() as life:
        take(log, life, 0, 2)
        take(log, life, 1, 2)
    alone = take(log, stack, 0, 1).membership
    assert (alone.generation, len(alone.tasks)) == (2, 4)
    assert alone.fenced == ("p-1-0", "p-1-1")
    assert alone.transactional_id == "p-2-0"


def test_generations_that_nobody_has_shut_out_are_handed_on(log: LogSystem, stack: ExitStack) -> None:
    for containers in (3, 2):
        with ExitStack() as life:
            take(log, life, 0, containers)
    with ExitStack() as life:
        guard = take(log, life, 0, 1)
        before = [(1, 0), (1, 1), (1, 2), (2, 0), (2, 1)]
        assert guard.membership.fenced == tuple(transactional_id("p", *one) for one in before)
        guard.announce("running")
    assert take(log, stack, 0, 1).membership.fenced == ()


def test_it_is_shut_out_who_was_there_before_a_generation_ran(log: LogSystem, stack: ExitStack) -> None:
    with ExitStack() as life:
        take(log, life, 0, 3)
    with ExitStack() as life:
        take(log, life, 0, 2).announce("running")
    assert take(log, stack, 0, 1).membership.fenced == ("p-2-0", "p-2-1")


def test_a_container_more_than_there_are_tasks_is_idle(log: LogSystem, stack: ExitStack) -> None:
    assert [take(log, stack, number, 5).membership.idle for number in range(5)] == [False] * 4 + [True]


def test_a_second_process_for_one_container_is_refused(log: LogSystem, stack: ExitStack) -> None:
    take(log, stack, 1, 2)
    error = error_of(lambda: take(log, stack, 1, 2), SystemProblem)
    assert "'p' (container 1) is running on" in str(error)


@pytest.mark.parametrize("containers", [1, 3])
def test_another_number_is_refused_while_one_container_lives(log: LogSystem, stack: ExitStack, containers: int) -> None:
    take(log, stack, 1, 2)
    error = error_of(lambda: take(log, stack, 0, containers), SystemProblem)
    assert "'p' (container 1) is running on" in str(error)


def test_several_are_refused_beside_a_run_that_is_alone(log: LogSystem, stack: ExitStack) -> None:
    take(log, stack, 0, 1)
    assert log.admin().partitions(STREAM) is None
    assert "(container 0) is running" in str(error_of(lambda: take(log, stack, 1, 2), SystemProblem))


def test_a_child_of_another_run_has_no_place(log: LogSystem, stack: ExitStack) -> None:
    plan = checked_plan(pipeline(), log, Settings())
    old, new = (begin_run(plan, log, 2, "end") for _ in range(2))
    assert take(log, stack, 0, 2, new).membership.run == new
    assert "another run has begun" in str(error_of(lambda: take(log, stack, 1, 2, old), TakenOver))


def test_a_run_of_all_containers_is_refused_while_one_lives(log: LogSystem, stack: ExitStack) -> None:
    take(log, stack, 1, 2)
    plan = checked_plan(pipeline(), log, Settings())
    assert "(container 1) is running" in str(error_of(lambda: begin_run(plan, log, 2, "end", hasty()), SystemProblem))


class _Unclaimed(LogSystem):
    """Containers see each other in the stream alone, as on Kafka."""

    def claim(self, pipeline: str, container: str = "0") -> AbstractContextManager[None]:
        del pipeline, container
        return nullcontext()


@pytest.mark.parametrize(
    ("other", "why"),
    [
        ((0, 3), "generation 2, with 3 containers, has begun"),
        ((0, 1), "generation 2, with 1 container, has begun"),
        ((1, 2), "process "),
    ],
)
def test_a_container_notices_that_its_place_is_taken(
    log: LogSystem, stack: ExitStack, other: tuple[int, int], why: str
) -> None:
    system = _Unclaimed(log.directory, fsync=False)
    guard = take(system, stack, 1, 2)
    guard.check()
    newer = take(system, stack, *other)
    assert f"container 1 of pipeline 'p' on {log.url} has lost its place: {why}" in str(
        error_of(guard.check, TakenOver)
    )
    newer.check()


@pytest.mark.parametrize("other", [None, (1, 2)])
def test_a_container_that_was_only_shut_out_is_not_taken_for_replaced(
    log: LogSystem, stack: ExitStack, other: tuple[int, int] | None
) -> None:
    system = _Unclaimed(log.directory, fsync=False)
    guard = take(system, stack, 1, 2)
    guard.check()
    if other is not None:
        take(system, stack, *other)
    lapsed = SystemProblem("a transaction took too long")
    with pytest.raises(SystemProblem) as raised, guard.fences_explained():
        raise Fenced("another run has taken over", lapsed)
    if other is None:
        assert raised.value is lapsed
    else:
        assert isinstance(raised.value, TakenOver)
        assert "container 1 of pipeline 'p'" in str(raised.value)


def test_a_container_minds_neither_its_neighbour_nor_one_that_it_has_followed(log: LogSystem, stack: ExitStack) -> None:
    system = _Unclaimed(log.directory, fsync=False)
    old = take(system, stack, 1, 2)
    new, neighbour = take(system, stack, 1, 2), take(system, stack, 0, 2)
    for guard in (new, neighbour):
        guard.announce("running")
        guard.check()
    error_of(lambda: old.announce("done"), TakenOver)
    assert take(system, stack, 0, 2).membership.run == new.membership.run


class _Overtaken(LogSystem):
    """Others write once it is known where a stream starts, and before anything is read."""

    def __init__(self, directory: Path, writes: Callable[[], object]) -> None:
        super().__init__(directory, fsync=False)
        self.writes = [writes]

    def admin(self) -> LogAdmin:
        return _OvertakenAdmin(self)


class _OvertakenAdmin(LogAdmin):
    def __init__(self, system: _Overtaken) -> None:
        super().__init__(system.directory, fsync=False)
        self._system = system

    def starts(self, stream: str) -> list[int]:
        found = super().starts(stream)
        while self._system.writes:
            self._system.writes.pop()()
        return found


def test_what_is_removed_while_it_is_about_to_be_read_is_not_missed(log: LogSystem) -> None:
    plan = checked_plan(pipeline(), log, Settings())
    begin_run(plan, log, 2, "end")
    overtaken = _Overtaken(log.directory, lambda: begin_run(plan, log, 3, "end"))
    known, _ = Coordinator(overtaken, "p").read()
    assert not overtaken.writes
    assert known.assignment is not None
    assert known.assignment.containers == 3


def test_the_stream_does_not_grow_for_ever(log: LogSystem) -> None:
    plan = checked_plan(pipeline(), log, Settings())
    for _ in range(20):
        begin_run(plan, log, 2, "end")
    assert log.admin().ends(STREAM)[0] - log.admin().starts(STREAM)[0] < 3


@pytest.mark.parametrize("partitions", [1, 2])
def test_an_end_that_was_read_before_a_death_is_not_reported_again(partitions: int, tmp_path: Path) -> None:
    """Container 0 has told the end of its source to container 1, which dies each time that it has taken something in;
    with two partitions, it tells of another source itself."""
    log = LogSystem(tmp_path, fsync=False)
    write(log, {"in": [[(None, b"a", 0, ())]] * partitions})

    def die(_: Progress) -> None:
        raise Death

    with at_each_turn(), ThreadPoolExecutor(1) as pool:
        other = pool.submit(run_in, log, 0, 2)
        wait_until(
            lambda: log.admin().partitions("p-by") and all(log.admin().ends("p-by")), "each partition has records"
        )
        for _ in range(4):
            with pytest.raises(Death):
                run_in(log, 1, 2, die)
        run_in(log, 1, 2)
        other.result()
    assert [record[1] for record in contents(log, "out")] == [b"a"] * partitions
