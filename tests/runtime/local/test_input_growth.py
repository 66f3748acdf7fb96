"""Sources that grow while containers run: tasks are opened again with what there is then."""

from collections import deque
from collections.abc import Iterator
from contextlib import closing

import pytest

from engines.live_containers import LiveContainers, counting, in_one_thread
from engines.sending import ProducingSystem
from engines.targets import write
from fluvial.dsl import PlanError
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.systems.partitioner import partition_for

KEYS = [b"%d" % number for number in range(20)]


@pytest.fixture
def live() -> Iterator[LiveContainers]:
    system = ProducingSystem()
    write(system, {"in": [[], []]})
    with in_one_thread(system), closing(LiveContainers(system, counting(), 2, Settings())) as made:
        for number in range(2):
            made.start(number)
        yield made


def send(live: LiveContainers, partitions: int) -> None:
    """Send a message of each key, by a producer that knows so many partitions."""
    records: list[list[Record]] = [[] for _ in range(partitions)]
    for key in KEYS:
        records[partition_for(key, partitions)].append((key, b"m", 0, ()))
    writing = live.system.producer().begin()
    for partition, some in enumerate(records):
        writing.append("in", partition, some)
    writing.commit()


def read(live: LiveContainers) -> dict[str, int]:
    """How far tasks have read each input, by the names of these."""
    found = checkpoints_in(live.system, "p").values()
    return {name: sum(one.offsets.get(name, 0) for one in found) for name in ("in", "in+1", "in+2", "in+3")}


def test_a_source_that_grows_twice_is_read_by_the_same_tasks(live: LiveContainers) -> None:
    send(live, 2)
    live.grow("in", 4)
    send(live, 4)
    live.rest()
    live.grow("in", 8)
    send(live, 8)
    live.rest()
    assert [live.tasks_of(number) for number in range(2)] == [["in/0"], ["in/1"]]
    assert sum(read(live).values()) == 3 * len(KEYS)
    assert all(read(live).values())
    reports = [container.report() for container, _, _ in live.alive.values()]
    assert sum(report.read["in"] for report in reports) == 3 * len(KEYS)


def test_a_container_that_takes_a_task_over_reads_what_the_one_before_has_read(live: LiveContainers) -> None:
    live.kill(1)
    live.grow("in", 4)  # the other one hears of it
    send(live, 4)
    live.start(1)
    live.scale(1)
    live.rest()
    assert sum(read(live).values()) == len(KEYS)


def test_who_takes_over_ends_where_the_source_has_grown_by_what_tasks_cannot_follow(live: LiveContainers) -> None:
    live.standing = {1}  # it hears of nothing
    live.grow("in", 4)
    send(live, 4)
    live.system.grow("in", 6)
    live.standing = set()
    live.suspect(0)
    with pytest.raises(PlanError, match="has 6 partitions"):
        deque((live.turn(1) for _ in range(40)), maxlen=0)


def test_nothing_of_a_stream_that_is_partitioned_otherwise_is_counted(live: LiveContainers) -> None:
    live.grow("in", 4)
    wrong = next(key for key in KEYS if partition_for(key, 4) == 0)
    writing = live.system.producer().begin()
    writing.append("in", 2, [(wrong, b"m", 0, ())])
    writing.commit()
    with pytest.raises(PlanError, match="has grown from 2 to 4 partitions, and is not partitioned by murmur2"):
        live.rest()
    assert read(live)["in+1"] == 0


def test_what_is_no_multiple_ends_the_run_before_state_is_of_keys_that_moved(live: LiveContainers) -> None:
    live.system.grow("in", 3)
    with pytest.raises(PlanError, match=r"has 3 partitions, and the state .* were in 2: .*\n(.*\n)*.*give it 4"):
        live.rest()
