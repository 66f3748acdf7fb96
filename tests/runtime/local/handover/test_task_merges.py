"""Tasks that come equally far before they are merged, and go on where they cannot be."""

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from unittest.mock import patch

import pytest

from engines.live_containers import LiveContainers, counting, in_one_thread
from engines.sending import ProducingSystem
from engines.targets import contents, write
from fluvial.dsl import Pipeline, count, tumbling
from fluvial.planner import Settings
from fluvial.runtime.kernel.key_buckets import bucket_of
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.handover import task_merges
from fluvial.runtime.local.input_queue import MOST_BATCHES
from fluvial.runtime.local.task import LocalTask

KEYS = [f"k{number}".encode() for number in range(12)]


@pytest.fixture
def live() -> Iterator[LiveContainers]:
    """A container with two key buckets, of which none has read anything."""
    system = ProducingSystem()
    write(system, {"in": [[(key, b"m", 0, ()) for key in KEYS]]})
    with in_one_thread(system), closing(LiveContainers(system, counting(), 1, Settings(elasticity=2))) as made:
        made.start(0)
        yield made


def tasks(live: LiveContainers) -> list[LocalTask]:
    return live.alive[0][0]._tasks


def test_a_task_that_has_read_further_waits_for_the_others(live: LiveContainers) -> None:
    ahead, behind = tasks(live)
    with patch.object(behind, "step", lambda *_: False):
        live.turn(0)
    assert ahead.queues.reached["in"] > 0 == behind.queues.reached["in"]
    live.scale(1, elasticity=1)
    with patch.object(behind, "step", lambda *_: False):
        for _ in range(20):
            live.turn(0)
        reached = ahead.queues.reached
        for _ in range(20):
            live.turn(0)
        assert ahead.queues.reached == reached
        assert not live.settled
    live.rest()
    assert live.tasks_of(0) == ["in/0"]
    assert checkpoints_in(live.system, "p")["in/0"].offsets == {"in": len(KEYS)}


def test_tasks_that_have_not_fired_the_same_go_on_and_are_brought_together_later(live: LiveContainers) -> None:
    day = 24 * 3600.0  # by a clock that is a minute later at every look
    with patch.object(task_merges, "fired_alike", lambda *_: False), patch.object(task_merges, "AGAIN_SECONDS", day):
        live.scale(1, elasticity=1)
        for _ in range(100):
            live.turn(0)
        assert live.tasks_of(0) == ["in/0-0-2", "in/0-1-2"]
        assert {task.queues.reached["in"] for task in tasks(live)} == {len(KEYS)}
        assert not any(task.leaves for task in tasks(live))
    live.rest()
    assert live.tasks_of(0) == ["in/0"]


def test_a_merge_that_is_taken_back_lets_all_go_on(live: LiveContainers) -> None:
    _, behind = tasks(live)
    with patch.object(behind, "step", lambda *_: False):
        live.turn(0)
        live.scale(1, elasticity=1)
        for _ in range(20):
            live.turn(0)
    live.scale(1, elasticity=2)
    live.rest()
    assert live.tasks_of(0) == ["in/0-0-2", "in/0-1-2"]
    assert {one.offsets["in"] for one in checkpoints_in(live.system, "p").values()} == {len(KEYS)}


def joined(order: str, row: str) -> str:
    return order + row


def with_a_table() -> Pipeline:
    pipeline = Pipeline("p")
    rows = pipeline.table("rows", key=str, value=str)
    pipeline.stream("in", key=str, value=str).join(rows, joined, id="joined").send_to("out", value=str)
    return pipeline


def add(system: ProducingSystem, number: int, rows: int) -> None:
    """So many messages, and rows of the table, of each key."""
    table = [(key, b"row", 0, ()) for key in KEYS for _ in range(rows)]
    write(system, {"rows": [table], "in": [[(key, b"m", 0, ()) for key in KEYS for _ in range(number)]]})


@pytest.mark.parametrize("dies", [False, True])
def test_tasks_that_have_a_table_to_read_do_that_before_they_are_brought_together(dies: bool) -> None:
    system = ProducingSystem()
    add(system, 1, 1)
    with in_one_thread(system), closing(LiveContainers(system, with_a_table(), 2, Settings(elasticity=2))) as live:
        for number in range(2):
            live.start(number)
        live.rest()
        live.scale(1, elasticity=1)
        add(system, 5, 60)
        if dies:
            live.start(0)  # it reads the table first, to where it ends now
        live.rest()
        assert live.tasks_of(0) == ["rows/0"]
        assert len(contents(system, "out")) == 6 * len(KEYS)


def test_a_task_that_goes_on_from_another_does_not_wait_for_its_table_again() -> None:
    system = ProducingSystem()
    add(system, 1, 1)
    with in_one_thread(system), closing(LiveContainers(system, with_a_table(), 1, Settings())) as live:
        live.start(0)
        live.rest()
        assert not checkpoints_in(system, "p")["rows/0"].bootstrapping
        add(system, 1, 500)
        live.scale(1, elasticity=2)
        while len(live.tasks_of(0)) != 2 or len(contents(system, "out")) != 2 * len(KEYS):
            live.turn(0)
        assert all(task.queues.reached["rows"] < 500 * len(KEYS) for task in tasks(live))


def test_what_a_task_reads_to_come_as_far_as_others_is_bounded(live: LiveContainers) -> None:
    write(live.system, {"in": [[(key, b"m", 0, ()) for key in KEYS * 200]]})
    ahead, behind = tasks(live)
    step = behind.step
    with patch.object(behind, "step", lambda *_: False):
        for _ in range(5):
            live.turn(0)
    live.scale(1, elasticity=1)
    most = 0
    with patch.object(behind, "step", lambda _=0: step(1)), patch.object(ahead, "step", ahead.step):
        for _ in range(100):
            live.turn(0)
            most = max(most, *(len(queue._batches) for task in tasks(live) for queue in task.queues))
    assert most <= MOST_BATCHES + 1
    live.rest()
    assert live.tasks_of(0) == ["in/0"]


def with_idle_sources() -> Pipeline:
    pipeline = Pipeline("p")
    one, other = (pipeline.stream(name, key=str, value=str, idle_after=timedelta(minutes=1)) for name in ("a", "b"))
    panes = one.merge(other).window(tumbling(timedelta(seconds=1)), count(), id="w")
    panes.map(lambda pane: f"{pane.key} {pane.window.start}").send_to("out", value=str)
    return pipeline


def test_a_source_that_was_idle_is_not_where_tasks_wait_for_each_other_in_front_of_its_messages() -> None:
    """Those that are behind would let time pass them. One that is ahead has done so before they came."""
    system, clock = ProducingSystem(), [0]

    def add_to(*names: str, at: int) -> None:
        write(system, {name: [[(key, b"m", at, ()) for key in KEYS]] for name in names})

    add_to("a", "b", at=500)
    with in_one_thread(system), closing(LiveContainers(system, with_idle_sources(), 1, Settings(elasticity=2))) as live:
        live.wall = lambda: clock[0]
        live.start(0)
        live.rest()
        clock[0] = 60_000
        add_to("a", at=1_500)
        live.rest()
        _, behind = tasks(live)
        own = {key.decode() for key in KEYS if bucket_of(key, 2) == behind.setup.bucket}
        add_to("a", at=9_500)
        with patch.object(behind, "step", lambda *_: False):
            live.turn(0)
            live.scale(1, elasticity=1)
            for _ in range(20):
                live.turn(0)
            assert behind.queues.of("a").hold_at is not None
            add_to("b", at=5_500)
            live.turn(0)
        for _ in range(50):
            live.turn(0)
        add_to("a", "b", at=20_500)
        live.rest()
        assert live.tasks_of(0) == ["a/0"]
    written = {(record[1] or b"").decode() for record in contents(system, "out")}
    assert {key for key in own if f"{key} 5000" in written} == own != set()
