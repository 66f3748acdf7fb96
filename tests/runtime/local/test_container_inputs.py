"""What a container reads, and what it lets a system trim, where tasks are split by key."""

from contextlib import ExitStack

from engines.local_tasks import local_run
from engines.targets import append
from fluvial.dsl import Pipeline
from fluvial.planner import Settings
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint
from fluvial.runtime.local.container_inputs import ContainerInputs
from fluvial.runtime.local.task import LocalTask
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.testing import PipelineDriver

KEYS = [f"k{number}".encode() for number in range(20)]


def crossing() -> Pipeline:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str, key=str).partition_by(str, id="by", key_type=str)
    keyed.send_to("out")
    return pipeline


def tasks(stack: ExitStack, *, turns: int = 20) -> list[LocalTask]:
    system = MemorySystem()
    system.admin().create("in", 1)
    append(system, "in", 0, [(key, key, 0, ()) for key in KEYS])
    made = local_run(crossing(), system, stack, elasticity=2)
    for _ in range(turns):
        made.container.turn()
        made.container.commit_ready()
    return made.tasks


def inputs_of(tasks: list[LocalTask]) -> ContainerInputs:
    return ContainerInputs(tasks)


def test_a_partition_is_read_once_for_all_its_tasks() -> None:
    with ExitStack() as stack:
        made = inputs_of(tasks(stack))
        assert made.positions.keys() == {("in", 0), ("p-by", 0)}
        assert made.wanted(None) == {("in", 0), ("p-by", 0)}
        assert made.wanted({("in", 0): 20}) == {("p-by", 0)}


def test_a_task_that_is_full_holds_back_the_partition() -> None:
    with ExitStack() as stack:
        some = tasks(stack, turns=0)
        made, queue = inputs_of(some), next(iter(some[0].queues))
        queue._batches.extend([None, None])  # type: ignore[list-item]
        assert made.wanted(None) == {("p-by", 0)}
        queue._batches.clear()


def test_what_all_tasks_have_committed_is_trimmed() -> None:
    with ExitStack() as stack:
        some = tasks(stack)
        end = some[2].trimmable_offsets()[("p-by", 0)]
        assert end > len(KEYS)
        assert inputs_of(some).trimmable(dict) == {("p-by", 0): end}


def test_tasks_of_other_containers_count_one_trim_later() -> None:
    with ExitStack() as stack:
        some = tasks(stack)
        made = inputs_of([task for task in some if task.name != "p-by/0-1-2"])
        theirs = {"p-by/0-1-2": Checkpoint(offsets={"p-by": 7})}
        assert [made.trimmable(lambda: theirs) for _ in range(2)] == [{}, {("p-by", 0): 7}]
        theirs = {"p-by/0-1-2": Checkpoint(offsets={"p-by": 8})}
        assert made.trimmable(lambda: theirs, last=True) == {("p-by", 0): 8}


def test_nothing_is_trimmed_before_each_task_has_committed() -> None:
    with ExitStack() as stack:
        some = tasks(stack)
        made = inputs_of([task for task in some if task.name != "p-by/0-1-2"])
        assert [made.trimmable(dict) for _ in range(3)] == [{}, {}, {}]


async def ask(item: str) -> list[str]:
    return [item]


def test_journals_are_trimmed_up_to_the_slowest_of_all_tasks() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).async_flat_map(ask, id="ask", journal=True).send_to("out")
    place = ("p-ask-journal", 0)
    with PipelineDriver(pipeline, settings=Settings(elasticity=2)) as driver:
        for _ in range(2):
            for key in KEYS:
                driver.send("in", key.decode(), key=key.decode())
        some = driver._tasks
        starts = [task.checkpoint.journals["ask"] for task in some]
        assert len(KEYS) < min(starts) <= max(starts) <= 2 * len(KEYS)
        assert inputs_of(some).trimmable(dict) == {place: min(starts)}
        made = inputs_of(some[:1])
        theirs = {some[1].name: Checkpoint(journals={"ask": 3})}
        assert [made.trimmable(lambda: theirs) for _ in range(2)] == [{}, {place: 3}]
