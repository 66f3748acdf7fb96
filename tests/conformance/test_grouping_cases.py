"""Section J of the conformance cases, of groupings: which partitions a task reads. A task is named by its stage and a
number, where Samza names it by a partition, or by a stream and a partition."""

from fluvial.dsl import MessageStream, Pipeline
from fluvial.planner import Settings, plan
from fluvial.planner.growths import partitions_read
from fluvial.planner.settings import Grouping


def merging(*broadcasts: str) -> Pipeline:
    """A stage that reads A and B, and what is broadcast."""
    pipeline = Pipeline("p")
    first, second = (pipeline.stream(name, key=str, value=int) for name in ("A", "B"))
    everywhere = [_broadcast(pipeline, name) for name in broadcasts]
    first.merge(second, *everywhere).send_to("out")
    return pipeline


def _broadcast(pipeline: Pipeline, name: str) -> MessageStream[int]:
    return pipeline.stream(name, value=int).broadcast(id=name)


def grouped(pipeline: Pipeline, grouping: Grouping, **partitions: int) -> dict[str, set[str]]:
    """The partitions that each task of the stage reads."""
    planned = plan(pipeline, partitions=partitions, settings=Settings(group_by=grouping))
    numbers = range(planned.stage("A").tasks)
    return {
        f"A/{number}": {f"{stream}/{at}" for stream, at in partitions_read(planned, "A", number).values()}
        for number in numbers
    }


def test_el01_a_task_reads_the_partitions_of_its_number() -> None:
    assert grouped(merging(), "partition", A=3, B=3) == {
        "A/0": {"A/0", "B/0"},
        "A/1": {"A/1", "B/1"},
        "A/2": {"A/2", "B/2"},
    }


def test_el02_every_task_reads_a_copy_of_what_is_broadcast() -> None:
    assert grouped(merging("X", "Y"), "partition", A=3, B=3, X=1, Y=2) == {
        "A/0": {"A/0", "B/0", "p-X/0", "p-Y/0"},
        "A/1": {"A/1", "B/1", "p-X/1", "p-Y/1"},
        "A/2": {"A/2", "B/2", "p-X/2", "p-Y/2"},
    }


def test_el03_what_is_broadcast_makes_no_task_of_its_own() -> None:
    assert grouped(merging("X"), "partition", A=1, B=1, X=4) == {"A/0": {"A/0", "B/0", "p-X/0"}}


def test_el03_a_task_for_each_stream_and_partition_reads_what_is_broadcast() -> None:
    assert grouped(merging("X"), "stream-partition", A=2, B=1, X=4) == {
        "A/0": {"A/0", "p-X/0"},
        "A/1": {"A/1", "p-X/1"},
        "A/2": {"B/0", "p-X/2"},
    }
