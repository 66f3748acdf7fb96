"""Conformance cases about grouping and elasticity, with the names and the ways of ADR 0051 and 0053.

A task is called `stage/number-bucket-elasticity`, and `stage/number` without elasticity. Where the reference takes the
largest of all offsets that a key bucket's ancestors and descendants have committed, one entry replaces all checkpoints
here, and tasks come equally far before they are merged."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from datetime import timedelta

import pytest

from engines.local_tasks import LocalRun, local_run
from engines.targets import append, contents
from fluvial.dsl import Pipeline, count, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.planner.task_assignment import StageTasks, TaskId, assign, stages_with, tasks_of
from fluvial.runtime import run
from fluvial.runtime.kernel.key_buckets import bucket_of
from fluvial.runtime.kernel.time.border_watermarks import read_control
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint, checkpoints_in
from fluvial.runtime.local.checkpoints.rescaled import rescaled
from fluvial.runtime.local.container_inputs import ContainerInputs
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import RecordBatch, StreamPartition
from fluvial.runtime.systems.reads import read_to_ends
from fluvial.runtime.testing import PipelineDriver

ZERO, ONE = b"bob", b"joe"
"""A key of each of two key buckets."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


def test_the_keys_are_of_these_buckets() -> None:
    assert (bucket_of(ZERO, 2), bucket_of(ONE, 2)) == (0, 1)


def message(key: bytes, time: int = 0) -> Record:
    return key, key, time, ()


def merged() -> Pipeline:
    pipeline = Pipeline("p")
    ours, theirs = (pipeline.stream(name, value=str, key=str) for name in ("A", "B"))
    ours.merge(theirs).send_to("out")
    return pipeline


def counting() -> Pipeline:
    pipeline = Pipeline("p")
    counted = pipeline.stream("A", value=str, key=str).window(tumbling(timedelta(milliseconds=10)), count(), id="n")
    counted.map(lambda pane: f"{pane.key} {pane.value}").send_to("out", value=str)
    return pipeline


def crossing() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("A", value=str, key=str).partition_by(str, id="by", key_type=str).send_to("out")
    return pipeline


def holding(**partitions: int) -> MemorySystem:
    system = MemorySystem()
    for stream, number in partitions.items():
        system.admin().create(stream, number)
    return system


def grouped(made: LocalRun) -> Mapping[str, set[StreamPartition]]:
    """The partitions that each task reads."""
    return {task.name: {*task.setup.partitions.values()} for task in made.tasks}


def test_el01_a_task_has_a_partition_of_each_input(stack: ExitStack) -> None:
    found = grouped(local_run(merged(), holding(A=3, B=2), stack))
    assert found == {"A/0": {("A", 0), ("B", 0)}, "A/1": {("A", 1), ("B", 1)}, "A/2": {("A", 2)}}


def test_el01_where_there_is_no_partition_there_is_no_task() -> None:
    assert assign({"A": StageTasks(0)}, 2) == {}


def test_el04_a_task_has_a_key_bucket_of_a_partition_of_each_input(stack: ExitStack) -> None:
    system = holding(A=3, B=2)
    for stream in ("A", "B"):
        append(system, stream, 1, [message(ZERO), message(ONE), message(ONE)])
    made = local_run(merged(), system, stack, elasticity=2)
    while made.container.turn():
        pass
    both, alone = {("A", 0), ("B", 0)}, {("A", 2)}
    middle = {("A", 1), ("B", 1)}
    assert grouped(made) == {
        "A/0-0-2": both,
        "A/0-1-2": both,
        "A/1-0-2": middle,
        "A/1-1-2": middle,
        "A/2-0-2": alone,
        "A/2-1-2": alone,
    }
    processed = {task.name: task.metrics().processed for task in made.tasks}
    assert (processed["A/1-0-2"], processed["A/1-1-2"]) == ({"A": 1, "B": 1}, {"A": 2, "B": 2})


def test_el06_messages_of_a_bucket_that_is_not_here_are_counted_as_discarded(stack: ExitStack) -> None:
    first = local_run(merged(), holding(A=1, B=1), stack, elasticity=2).tasks[0]
    batch = RecordBatch("A", 0, range(3), [message(ZERO), message(ONE), message(ONE)])
    ContainerInputs([first]).add(batch)
    while first.step():
        pass
    (counts,) = (one for one in first.metrics().inputs if one.stream == "A")
    assert (counts.read, counts.processed, counts.discarded) == (3, 1, 2)


@pytest.mark.parametrize(("other", "own"), [(ZERO, ONE), (ONE, ZERO)])
def test_el07_messages_of_other_buckets_are_passed_over_and_time_and_ends_are_not(other: bytes, own: bytes) -> None:
    """The reference has an error for a message that no task here owns: a task here reads the whole partition."""
    with PipelineDriver(counting(), settings=Settings(elasticity=2)) as driver:
        driver.records.send("A", [message(own, 1)])
        assert driver.read("out") == []
        driver.records.send("A", [message(other, 25)])
        assert [one.value for one in driver.read("out")] == [f"{own.decode()} 1"]
        driver.records.send("A", [message(own, 26)])
        driver.end()
        assert {one.value for one in driver.read("out")} == {f"{own.decode()} 1", f"{other.decode()} 1"}


@pytest.mark.parametrize("keys", [[ZERO, ONE], [ZERO], [ONE], []], ids=str)
def test_el08_one_end_of_a_partition_ends_all_its_key_buckets(keys: list[bytes]) -> None:
    """What the reference calls a drain is a run to the end here."""
    system = holding(A=1)
    append(system, "A", 0, [message(key) for key in keys])
    run(counting(), system=system, until="end", settings=Settings(elasticity=2))
    assert {value for _, value, _, _ in contents(system, "out")} == {key + b" 1" for key in keys}
    assert {name: one.offsets for name, one in checkpoints_in(system, "p").items()} == {
        task: {"A": len(keys)} for task in ("A/0-0-2", "A/0-1-2")
    }


def test_el09_a_commit_has_the_offset_of_the_partition_as_it_was_then(stack: ExitStack) -> None:
    system = holding(A=1)
    made = local_run(counting(), system, stack, elasticity=2)
    found = []
    for records in ([message(ZERO)] * 47, [message(ZERO)]):
        append(system, "A", 0, records)
        while made.container.turn():
            pass
        made.container.commit_ready()
        found.append(checkpoints_in(system, "p")["A/0-0-2"].offsets)
    assert found == [{"A": 47}, {"A": 48}]  # the first that is not processed: one more than the reference commits


def ids(number: int, elasticity: int) -> list[TaskId]:
    return [TaskId("A", number, bucket, elasticity) for bucket in range(elasticity)]


def test_el11_tasks_without_checkpoints_give_none_to_those_that_take_their_place() -> None:
    known = Checkpoint(offsets={"A": 5})
    assert rescaled(ids(0, 1), ids(0, 2), {}) == {}
    assert rescaled(ids(0, 2), ids(0, 1), {}) == {}
    assert rescaled(ids(0, 2), ids(0, 4), {"A/0-1-2": known}).keys() == {*ids(0, 4)[1::2]}
    assert rescaled(ids(1, 1), ids(1, 2), {"A/0": known}) == {}


def test_el12_tasks_that_share_keys_are_those_that_one_is_split_into_and_merged_from() -> None:
    one, others = TaskId("A", 0), [*ids(0, 1), *ids(0, 2), *ids(0, 4)]
    assert all(one.shares_keys(task) and task.shares_keys(one) for task in others)
    assert not any(one.shares_keys(task) or task.shares_keys(one) for task in [*ids(1, 1), *ids(1, 2)])
    half = TaskId("A", 0, 0, 2)
    assert [task for task in others if half.shares_keys(task)] == [one, half, *ids(0, 4)[::2]]
    assert [task for task in others if task.shares_keys(half)] == [one, half, *ids(0, 4)[::2]]


@pytest.mark.parametrize(("name", "parts"), [("A/0", ("A", 0, 0, 1)), ("A/0-1-2", ("A", 0, 1, 2))])
def test_el14_a_name_tells_number_bucket_and_elasticity(name: str, parts: tuple[str, int, int, int]) -> None:
    assert (TaskId.parse(name), TaskId(*parts).name) == (parts, name)


@pytest.mark.parametrize("name", ["FooBar", "A/", "A/0-1", "A/b", "A/-1"])
def test_el14_another_name_is_an_error(name: str) -> None:
    """The reference has a task of partition -1 for it."""
    with pytest.raises(ValueError, match="is no name of a task"):
        TaskId.parse(name)


@pytest.mark.parametrize("elasticity", [1, 2])
def test_el14_names_tell_whether_there_is_elasticity(elasticity: int) -> None:
    stages = {"A-0-2": StageTasks(2), "B": StageTasks(1, elasticity)}
    assert stages_with(tasks_of(stages)) == stages


def test_el14_offsets_are_of_streams_whatever_the_bucket() -> None:
    stored = {"A/0-0-2": Checkpoint(offsets={"A": 5}), "A/0-1-2": Checkpoint(offsets={"A": 5})}
    (found,) = rescaled(ids(0, 2), ids(0, 1), stored).values()
    assert (found.offsets.get("A"), found.offsets.get("B")) == (5, None)


def ends_in(system: MemorySystem, stream: str) -> Counter[tuple[int, int]]:
    """How many control messages of an end each partition of an intermediate stream has, of each task."""
    found: Counter[tuple[int, int]] = Counter()
    admin = system.admin()
    for batch in read_to_ends(system, stream, admin.starts(stream), admin.ends(stream)):
        for _, value, _, headers in batch.records:
            control = read_control(headers[-1][1]) if value is None else None
            if control is not None and control.ended:
                found[batch.partition, control.producer] += 1
    return found


def test_el20_each_partition_behind_a_border_has_one_control_message_of_each_task(stack: ExitStack) -> None:
    """In the reference one task of a partition sends them for all its key buckets. Each key bucket is a writer here,
    which has a time of its own."""
    system = holding(A=2)
    made = local_run(crossing(), system, stack, elasticity=2)
    made.container.end_at({("A", 0): 0, ("A", 1): 0})
    while made.container.turn():
        pass
    assert ends_in(system, "p-by") == {(partition, task): 1 for partition in range(2) for task in range(4)}
