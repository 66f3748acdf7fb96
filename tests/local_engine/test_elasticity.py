"""Tasks that are split by key: what is written, counted and kept is what it is without."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.local_tasks import local_run
from engines.several import run_together
from engines.targets import append, contents, namespace
from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, PlanError, count, skip, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import Settings, plan
from fluvial.runtime import run
from fluvial.runtime.kernel.key_buckets import bucket_of
from fluvial.runtime.launch import Until, checked_plan, run_container
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.coordination.membership import ContainerId
from fluvial.runtime.local.engine import change_elasticity
from fluvial.runtime.systems import LogSystem, MemorySystem, System
from fluvial.runtime.systems.partitioner import partition_of
from fluvial.runtime.testing import PipelineDriver
from kafka.broker import Broker

USERS = [f"user{number}" for number in range(12)]
SECOND = timedelta(seconds=1)


def counting() -> Pipeline:
    """Counts the messages of each user and second."""
    pipeline = Pipeline("p")
    counted = pipeline.stream("in", value=str, key=str).window(tumbling(SECOND), count(), id="n")
    counted.map(lambda pane: f"{pane.kind} {pane.key} {pane.window.start} {pane.value}").send_to("out", value=str)
    return pipeline


def of_users(*times: int, users: Iterable[str] = USERS) -> list[Record]:
    return [(user.encode(), b"m", time, ()) for time in times for user in users]


def add(system: System, *times: int) -> None:
    """Write a message of each user and time, to the partition of the user."""
    for record in of_users(*times):
        append(system, "in", partition_of(record[0] or b"", 2), [record])


def counted(*windows: int, each: int = 1) -> Counter[str]:
    return Counter(f"on_time {user} {start} {each}" for start in windows for user in USERS)


def written(system: System) -> Counter[str]:
    return Counter((value or b"").decode() for _, value, _, _ in contents(system, "out"))


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    made = LogSystem(tmp_path / "log", fsync=False)
    made.admin().create("in", 2)
    return made


@pytest.mark.parametrize("elasticity", [1, 2, 4])
def test_every_task_has_every_message_of_a_broadcast(elasticity: int) -> None:
    pipeline = Pipeline("p")
    rules = pipeline.stream("rules", value=str).broadcast(id="rules")
    pipeline.stream("words", value=str, key=str).merge(rules).send_to("seen", value=str)
    settings = Settings(elasticity={"words": elasticity})
    with PipelineDriver(pipeline, partitions={"words": 2, "rules": 1}, settings=settings) as driver:
        for rule in ("no tea", "no milk"):
            driver.send("rules", rule)
        for user in USERS:
            driver.send("words", "word", key=user)
        driver.end()
        found = Counter(message.value for message in driver.read("seen"))
    assert found == {"word": 12, "no tea": 2 * elasticity, "no milk": 2 * elasticity}


def test_a_stage_that_reads_a_broadcast_alone_is_not_split() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("rules", value=str).broadcast(id="rules").send_to("seen", value=str)
    assert [stage.elasticity for stage in plan(pipeline, settings=Settings(elasticity=4)).stages] == [4, 1]


def test_a_task_is_named_by_number_bucket_and_elasticity_and_without_elasticity_by_number(log: LogSystem) -> None:
    add(log, 500)
    run(counting(), system=log, until="end")
    assert {*checkpoints_in(log, "p")} == {"in/0", "in/1"}
    run(counting(), system=log, until="end", settings=Settings(elasticity=2))
    assert {*checkpoints_in(log, "p")} == {"in/0-0-2", "in/0-1-2", "in/1-0-2", "in/1-1-2"}


def test_each_message_is_processed_and_counted_once(log: LogSystem) -> None:
    append(log, "in", 0, of_users(500, 700))
    report = run(counting(), system=log, until="end", settings=Settings(elasticity=8))
    assert (report.read, report.written) == ({"in": 24}, {"out": 12})
    assert written(log) == counted(0, each=2)


def test_a_message_is_late_by_those_of_other_key_buckets(log: LogSystem) -> None:
    early, late = [user for bucket in (0, 1) for user in USERS if bucket_of(user.encode(), 2) == bucket][::11]
    append(log, "in", 0, [*of_users(5500, users=[early]), *of_users(500, users=[late])])
    report = run(counting(), system=log, until="end", settings=Settings(elasticity=2))
    assert (report.late, written(log)) == ({"n": 1}, {f"on_time {early} 5000 1": 1})


def test_messages_without_key_are_spread_where_there_is_no_state() -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).map(str.upper).send_to("out", value=str)
    with ExitStack() as stack:
        system = MemorySystem()
        system.admin().create("in", 1)
        append(system, "in", 0, [(None, b"m", 0, ())] * 8)
        tasks = local_run(pipeline, system, stack, elasticity=4)
        while tasks.container.turn():
            pass
        assert [task.metrics().processed for task in tasks.tasks] == [{"in": 2}] * 4
        assert [task.metrics().inputs[0].discarded for task in tasks.tasks] == [6] * 4


def test_what_cannot_be_decoded_is_one_error_of_the_task_that_has_its_key() -> None:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=int, key=str).send_to("out", value=int)
    with PipelineDriver(pipeline, settings=Settings(elasticity=4)) as driver:
        driver.send("in", 1, key="a")
        driver.records.send("in", [(b"a", b"no number", 0, ())])
        driver.send("in", 2, key="b")
        report = driver.end()
    assert (report.failed, report.written) == ({"stream-1": 1}, {"out": 2})


def test_a_call_that_takes_long_holds_back_no_commit_of_another_key_bucket() -> None:
    slow, quick = [user for bucket in (0, 1) for user in USERS if bucket_of(user.encode(), 2) == bucket][::11]

    async def call(user: str) -> list[str]:
        await asyncio.sleep(60 if user == slow else 0)
        return [user]

    pipeline = Pipeline("p")
    pipeline.stream("in", value=str, key=str).async_flat_map(call, id="call", timeout=timedelta(hours=1)).send_to("out")
    with PipelineDriver(pipeline, settings=Settings(elasticity=2)) as driver:
        driver.send("in", slow, key=slow)
        for _ in range(3):
            driver.send("in", quick, key=quick)
        driver.commit()
        assert [message.value for message in driver.read("out")] == [quick] * 3
        assert driver.report().checkpoints >= 1
        driver.advance(timedelta(minutes=1))
        assert Counter(message.value for message in driver.read("out")) == {quick: 3, slow: 1}


CHANGES = [(1, 4, 2, 1), (4, 1, 8, 2)]


def changed(system: System, elasticity: Sequence[int], **settings: Any) -> None:
    """A run of each elasticity. A window is open from each run to the next, so that what is kept counts."""
    for number, each in enumerate(elasticity):
        add(system, *(1000 * number + time for time in (500, 700, 600)))
        until: Until = "end" if number == len(elasticity) - 1 else "caught-up"
        run(counting(), system=system, until=until, settings=Settings(elasticity=each, **settings))
    assert written(system) == counted(*range(0, 1000 * len(elasticity), 1000), each=3)


@pytest.mark.parametrize("elasticity", CHANGES)
def test_state_is_kept_as_the_elasticity_changes(log: LogSystem, elasticity: tuple[int, ...]) -> None:
    changed(log, elasticity)


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("elasticity", "guarantee"),
    # What at_least_once keeps on Kafka is in the properties of tests/properties/test_rescales.py, "sent".
    [pytest.param(CHANGES[0], "at_least_once", marks=pytest.mark.long), (CHANGES[1], "exactly_once")],
)
def test_so_it_is_on_kafka(broker: Broker, tmp_path: Path, elasticity: tuple[int, ...], guarantee: str) -> None:
    system = namespace(broker)
    system.admin().create("in", 2)
    changed(system, elasticity, state_dir=str(tmp_path), guarantee=guarantee)
    assert not [*tmp_path.glob(f"p/container-0/*.{elasticity[0]}*")], "stores of earlier tasks are removed"


@pytest.mark.kafka
@pytest.mark.parametrize("guarantee", ["at_least_once", pytest.param("exactly_once", marks=pytest.mark.long)])
def test_key_buckets_in_several_containers_restore_their_own_state(
    broker: Broker, tmp_path: Path, guarantee: Any
) -> None:
    system = namespace(broker)
    system.admin().create("in", 2)
    for number in range(3):
        add(system, 1000 * number + 500, 1000 * number + 600)
        # Each run finds no stores, so that all state comes from the changelogs.
        settings = Settings(
            elasticity=4, guarantee=guarantee, state_dir=str(tmp_path / str(number)), forget_at_end=False
        )
        run_together(system, counting(), 3, settings)
    panes = written(system)
    # At each end the window that is open fires, and in a later run once more if it changed.
    assert panes == counted(0, 1000, 2000, each=2)


def test_containers_that_share_a_partition_trim_what_all_of_them_have_read(log: LogSystem) -> None:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str)
    keyed.window(tumbling(SECOND), count(), id="n").map(lambda pane: f"{pane.key} {pane.value}").send_to("out")
    for number in range(4):
        append(log, "in", 0, [(None, user.encode(), 1000 * number, ()) for user in USERS])
        run_together(log, pipeline, 2, Settings(elasticity=2))
    assert sum(written(log).values()) == 48


def test_a_process_that_is_one_of_several_containers_does_not_change_it(log: LogSystem) -> None:
    add(log, 500)
    run(counting(), system=log, until="caught-up")
    with pytest.raises(PlanError) as raised:
        run_container(counting(), "local", log, Settings(elasticity=2), "end", None, None, ContainerId(0, 2))
    assert_explains(
        raised.value,
        wrong="stage 'in' has 1, and is to have 2",
        place=None,
        expected="tasks that are split as in their checkpoints",
        remedy="let one process change it",
    )
    assert {*checkpoints_in(log, "p")} == {"in/0", "in/1"}


def test_containers_of_a_supervisor_have_the_new_elasticity(log: LogSystem) -> None:
    for number, elasticity in enumerate((1, 4, 2)):
        add(log, 1000 * number + 500)
        settings = Settings(elasticity=elasticity)
        change_elasticity(checked_plan(counting(), log, settings), log, settings, "end")
        run_together(log, counting(), 2, settings)
    assert written(log) == counted(0, 1000, 2000)


@pytest.mark.parametrize(("elasticity", "wrong"), [({"by": 2}, "'by'"), ({"in": 2, "out": 4}, "'out'")])
def test_an_elasticity_of_a_stage_that_there_is_not_is_refused(elasticity: dict[str, int], wrong: str) -> None:
    error = error_of(lambda: plan(counting(), settings=Settings(elasticity=elasticity)), PlanError)
    assert_explains(error, f"Settings: elasticity names {wrong}", None, "stages of pipeline 'p': 'in'")
