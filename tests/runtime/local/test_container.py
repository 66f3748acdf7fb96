"""A container at work: one turn reads, processes, and commits what is due by its clock."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta

import pytest

from engines.local_tasks import LocalRun, local_run
from engines.targets import contents, write
from fluvial.dsl import Pipeline
from fluvial.dsl.errors import NoProgressError
from fluvial.runtime.systems import MemorySystem

WORDS = [(None, b"a", 1, ()), (None, b"b", 2, ())]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def copying(stack: ExitStack, interval: float = 60) -> tuple[LocalRun, MemorySystem]:
    """A container that copies two partitions, and commits every so many seconds."""
    pipeline, system = Pipeline("p"), MemorySystem()
    pipeline.stream("in", value=str).send_to("out")
    write(system, {"in": [WORDS, WORDS[:1]]})
    return local_run(pipeline, system, stack, commit_interval=timedelta(seconds=interval)), system


def turns(run: LocalRun) -> None:
    """Let the container work until it has nothing to do."""
    while run.container.turn():
        pass


def test_a_turn_hands_each_partition_to_the_task_that_owns_it(stack: ExitStack) -> None:
    run, _ = copying(stack)
    turns(run)
    assert sorted(task.queues.processed for task in run.tasks) == [1, 2]
    assert run.container.report().read == {"in": 3}


def test_outputs_are_there_once_a_commit_is_due_by_the_clock(stack: ExitStack) -> None:
    run, system = copying(stack, interval=60)
    turns(run)
    assert contents(system, "out") == []
    run.clock.now = 61
    turns(run)
    assert sorted(record[1] or b"" for record in contents(system, "out")) == [b"a", b"a", b"b"]
    assert run.container.report().checkpoints == 2


def test_a_commit_is_made_when_it_is_asked_for_and_only_if_something_has_changed(stack: ExitStack) -> None:
    run, system = copying(stack)
    turns(run)
    assert run.container.commit_ready()
    assert len(contents(system, "out")) == 3
    assert not run.container.commit_ready()


def test_a_run_is_finished_at_the_ends_that_it_is_given(stack: ExitStack) -> None:
    run, system = copying(stack)
    run.container.end_at({("in", 0): 1, ("in", 1): 1})
    while not run.container.finished:
        run.container.turn()
    run.container.commit_ready()
    assert [record[1] for record in contents(system, "out")] == [b"a", b"a"]


def test_nothing_that_moves_while_there_is_work_is_a_stall(stack: ExitStack) -> None:
    run, _ = copying(stack)
    run.container.end_at({("in", 0): 9, ("in", 1): 1})
    turns(run)
    run.clock.now = 100_000
    with pytest.raises(NoProgressError, match="waits for the end of in"):
        turns(run)
