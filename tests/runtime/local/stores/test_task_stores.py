"""A store that fails ends the run: it is no failure of the message that met it."""

import asyncio
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from engines.sending import ProducingSystem
from engines.stages import feed, program_of
from engines.watched import WatchedStore
from explained import assert_explains, error_of
from fluvial.dsl import KeyedStream, Pipeline, PipelineError, SystemProblem, aggregate, count, skip, tumbling
from fluvial.planner import Plan, Settings, plan
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.state_cache import KeyedState
from fluvial.runtime.local.stores.task_stores import every_folder, remove_others, store_for
from fluvial.runtime.state import MemoryStore, RocksStore, StoreLocked
from fluvial.runtime.state.rocksdb import block_cache
from fluvial.runtime.systems import open_system
from fluvial.runtime.testing import PipelineDriver


async def at_once(value: str) -> list[str]:
    return [value]


def failing_in(call: str) -> Callable[[str], None]:
    """Raises the error of a broken disk in these calls of a store."""

    def told(name: str) -> None:
        if name == call:
            raise SystemProblem("bad block")

    return told


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("call", "time"), [("get", 0), ("scan", 10)])
def test_an_error_of_the_store_is_never_skipped(call: str, time: int, asynchronous: bool) -> None:
    pipeline = Pipeline("p", on_error=skip())
    keyed: KeyedStream[str, str] = pipeline.stream("in", value=str, key=str)
    keyed = keyed.async_flat_map(at_once, id="call") if asynchronous else keyed
    keyed.window(tumbling(timedelta(milliseconds=10)), count(), id="w").send_to("out")
    program, store = program_of(pipeline), MemoryStore()

    async def work() -> None:
        before = StageTask(program, store, empty=True)
        await fed(before, 0)
        store.write(before.state.changes())
        await fed(StageTask(program, WatchedStore(store, failing_in(call)), position=before.position()), time)

    with pytest.raises(SystemProblem, match="bad block"):
        asyncio.run(work())


async def fed(task: StageTask, time: int) -> None:
    """Give a task one message, and wait until it is done with it."""
    feed(task, "in", (b"k", b"x", time, ()))
    while task.progress.busy:
        await asyncio.sleep(0)
    task.check()


CALLS: list[tuple[Callable[[RocksStore], Any], str]] = [
    (lambda store: store.get(b"k", b"1"), "read"),
    (lambda store: list(store.scan(b"k")), "read"),
    (lambda store: list(store.prefixes(b"k")), "read"),
    (lambda store: store.write([(b"k", b"1", b"")]), "written to"),
    (lambda store: store.clear(), "read"),
]


@pytest.mark.parametrize(("call", "what"), CALLS)
def test_an_error_of_rocksdb_names_the_folder(call: Callable[[RocksStore], Any], what: str, tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store")
    store.close()
    error = error_of(lambda: call(store), SystemProblem)
    assert_explains(error, f"store in {tmp_path / 'store'} cannot be {what}", None, "a local disk", "check the disk")


def test_state_of_another_type_is_a_problem_of_the_store() -> None:
    store = MemoryStore()
    store.write([(b"w\0k", b"key", b"\xa1x")])
    state = KeyedState("w", store, int, int, complete=False)
    error = error_of(lambda: state.cache.fresh[b"key"], SystemProblem)
    assert_explains(error, "the state of 'w' cannot be read: Expected `int`, got `str`", None, "state of the")
    error = error_of(lambda: list(state.cache.items()), SystemProblem)
    assert_explains(error, "the state of 'w'", None, "", "another id")


def test_an_accumulator_that_cannot_be_encoded_names_its_window() -> None:
    def beyond(number: int, _: str) -> int:
        return number + 2**70

    def windowed() -> None:
        keyed = pipeline.stream("in", value=str, key=str)
        keyed.window(tumbling(timedelta(days=1)), aggregate(int, beyond), id="w").send_to("out")

    pipeline = Pipeline("p", on_error=skip())
    windowed()
    with PipelineDriver(pipeline) as driver:
        error = error_of(lambda: driver.send("in", "x", key="k"), PipelineError)
    assert_explains(
        error,
        "the state of window w cannot be encoded: OverflowError",
        windowed,
        "64 bits",
        "correct what add returns",
        2,
    )


def test_a_store_that_is_open_elsewhere_is_not_taken_for_damaged(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "store", spare=True)
    store.write([(b"k", b"1", b"kept")])
    error = error_of(lambda: RocksStore(tmp_path / "store", spare=True), StoreLocked)
    assert_explains(error, "cannot be opened: IO error: lock hold", None, "no other process has open", "stop the other")
    assert store.get(b"k", b"1") == b"kept"


def test_a_store_stays_locked_while_it_is_cleared(tmp_path: Path) -> None:
    """Another container waits for it."""
    store, over = RocksStore(tmp_path / "store"), threading.Event()

    def wait_for_it() -> bool:
        while not over.is_set():
            with suppress(StoreLocked):
                RocksStore(tmp_path / "store").close()
                return True
        return False

    with ThreadPoolExecutor(max_workers=1) as thread:
        other = thread.submit(wait_for_it)
        for _ in range(30):
            store.write([(b"k", b"%d" % index, bytes(100)) for index in range(100)])
            store.clear()
            assert list(store.scan(b"k")) == []
        over.set()
        assert not other.result()
    store.write([(b"k", b"1", b"2")])
    store.close()
    assert list(RocksStore(tmp_path / "store").scan(b"k")) == [(b"1", b"2")]


@pytest.mark.parametrize("spare", [False, True])
def test_a_store_with_a_damaged_block_is_given_up_where_there_is_a_copy(tmp_path: Path, spare: bool) -> None:
    for _ in range(2):  # opened again, a store writes what its log holds into tables
        store = RocksStore(tmp_path / "store", spare=spare)
        store.write([(b"k", b"%d" % number, bytes(100)) for number in range(100)])
        store.close()
    for table in (tmp_path / "store").glob("*.sst"):
        table.write_bytes(bytes(byte ^ 0xFF for byte in table.read_bytes()))
    if spare:
        assert RocksStore(tmp_path / "store", spare=True).get(b"k", b"1") is None
    else:
        error = error_of(lambda: RocksStore(tmp_path / "store"), SystemProblem)
        assert_explains(error, "cannot be opened: Corruption", None, "a store that is whole", "check the disk")


@pytest.mark.parametrize(("buffer_bytes", "flushes"), [(64 << 10, True), (32 << 20, False)])
def test_a_write_buffer_holds_as_many_bytes_as_the_settings_say(
    tmp_path: Path, buffer_bytes: int, flushes: bool
) -> None:
    settings = Settings(rocksdb_buffer_bytes=buffer_bytes, state_dir=str(tmp_path))
    store = store_for(made(), "task", open_system(f"log:{tmp_path}/log"), settings)
    for number in range(20):
        store.write([(b"k", b"%d" % number, bytes(100_000))])
    # Even if the files of the small buffers have not been merged yet, there are some; a large one is not full.
    assert bool([*tmp_path.rglob("*.sst")]) == flushes
    store.close()


def test_the_stores_of_a_process_share_a_cache_of_bounded_size(tmp_path: Path) -> None:
    settings = Settings(rocksdb_buffer_bytes=64 << 10, rocksdb_cache_bytes=1 << 20, state_dir=str(tmp_path))
    for task in ("one", "other"):
        store = store_for(made(), task, open_system(f"log:{tmp_path}/log"), settings)
        for number in range(30):
            store.write([(b"k", b"%d" % number, bytes(range(256)) * 400)])
        assert all(store.get(b"k", b"%d" % number) is not None for number in range(30))
        assert 0 < block_cache(1 << 20).get_usage() <= 1 << 20
        store.close()
    assert block_cache(1 << 20) is block_cache(1 << 20)


def made() -> Plan:
    pipeline = Pipeline("p")
    stream = pipeline.stream("in", value=str, key=str)
    stream.window(tumbling(timedelta(days=1)), count(), id="w").send_to("out")
    return plan(pipeline, partitions={"in": 1})


def test_of_several_copies_of_a_store_the_one_that_was_written_last_is_left(tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).window(tumbling(timedelta(days=1)), count(), id="w").send_to("out")
    planned, system, settings = plan(pipeline), ProducingSystem(), Settings(state_dir=str(tmp_path))
    with closing(store_for(planned, "in/0", system, settings)) as paused:
        second = store_for(planned, "in/0", system, settings)
        paused.write([(b"k", b"1", b"old")])
    for file in tmp_path.rglob("in-0/*"):  # the times of files are too coarse for writes that follow each other at once
        os.utime(file, (0, 0))
    with closing(second):
        second.write([(b"k", b"1", b"new")])
    with closing(store_for(planned, "in/0", system, settings)) as last:
        assert last.get(b"k", b"1") == b"new"
    assert len(every_folder(planned, system, settings)) == 1


def test_the_stores_of_tasks_that_there_are_no_more_are_removed(tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(tumbling(timedelta(milliseconds=10)), count(), id="w").send_to("out")
    planned, system = plan(pipeline), ProducingSystem()
    settings = Settings(state_dir=str(tmp_path))
    tasks = ["in/0", "in/0-0-2", "in/0-1-2", "in/1", "another/0-0-2"]
    for container in (0, 1):
        for task in tasks:
            store_for(planned, task, system, settings, container).close()
    with closing(store_for(planned, "in/0-1-2", system, settings, 1)):  # a process that is paused has it open
        for container in (0, 1):
            remove_others(planned, system, settings, container, ["in/0", "in/1"])
    left = [f"{folder.parent.name}/{folder.name}" for folder in every_folder(planned, system, settings)]
    of_another = "another-0.0.2"
    assert sorted(left) == [
        *(f"container-0/{name}" for name in (of_another, "in-0", "in-1")),
        *(f"container-1/{name}" for name in (of_another, "in-0", "in-0.1.2", "in-1")),
    ]


def test_a_store_whose_folder_cannot_be_opened_gets_another_where_there_is_a_copy(tmp_path: Path) -> None:
    planned, system, settings = made(), ProducingSystem(), Settings(state_dir=str(tmp_path))
    home = tmp_path / "p" / "container-0"
    home.mkdir(parents=True)
    (home / "in-0").write_text("in the way")
    with closing(store_for(planned, "in/0", system, settings)) as store:
        store.write([(b"k", b"1", b"new")])
    assert [folder.name for folder in every_folder(planned, system, settings)] == ["in-0~2"]
    for number in range(2, 9):
        (home / f"in-1~{number}").write_text("in the way")
    (home / "in-1").write_text("in the way")
    with pytest.raises(SystemProblem, match="in-1 cannot be opened"):
        store_for(planned, "in/1", system, settings)
