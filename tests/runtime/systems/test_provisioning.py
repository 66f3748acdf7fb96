"""Streams between stages keep the partition count that they were made with."""

import pytest

from engines.targets import write
from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PlanError, SystemProblem
from fluvial.planner import Settings, plan
from fluvial.runtime import run
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.provisioning import make_streams


def crossing(id: str = "by") -> Pipeline:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int)
    numbers.partition_by(str, id=id).send_to("out")
    return pipeline


@pytest.fixture
def system() -> MemorySystem:
    made = MemorySystem()
    write(made, {"in": [[(None, b"1", 0, ())]]})
    run(crossing(), system=made, settings=Settings(intermediate_partitions=2), until="end")
    return made


def run_with(system: MemorySystem, count: int | None, id: str = "by") -> None:
    run(crossing(id), system=system, settings=Settings(intermediate_partitions=count), until="end")


def test_another_count_is_refused_where_there_is_the_stream(system: MemorySystem) -> None:
    error = error_of(lambda: run_with(system, 5), PlanError)
    wrong = "the stream 'p-by' has 2 partitions, and is to have 5, as the setting intermediate_partitions=5 says"
    assert_explains(error, wrong, crossing, "the count that the stream was made with", "give 'by' another id", below=3)


@pytest.mark.parametrize(("count", "id"), [(2, "by"), (None, "by"), (5, "again")])
def test_the_same_count_or_none_or_another_stream_is_not(system: MemorySystem, count: int | None, id: str) -> None:
    run_with(system, count, id)


async def length(value: str) -> list[int]:
    return [len(value)]


def asking() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).async_flat_map(length, id="ask", journal=True).send_to("out")
    return pipeline


def test_a_journal_for_another_number_of_tasks_is_refused_with_a_way_out() -> None:
    made = plan(asking(), partitions={"in": 3})
    admin = MemorySystem().admin()
    admin.create("p-ask-journal", 2, "journal")
    error = error_of(lambda: make_streams(made, admin), SystemProblem)
    wrong = "the journal 'p-ask-journal' of async_flat_map ask has 2 partitions, and its stage has 3 tasks now"
    assert_explains(error, wrong, asking, "a partition for each task number", "fluvial reset --state ask", below=2)
