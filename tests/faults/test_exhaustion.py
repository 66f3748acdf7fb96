"""A machine that runs out of disk or of open files: the run ends with the reason and exit code 4, and loses nothing."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from engines.targets import contents, write
from explained import assert_explains, error_of
from faults.deaths import assert_nothing_is_missing, stage, wait_until_stopped
from faults.small_disks import SmallDisk, small_disk
from fluvial.dsl import Pipeline, SystemProblem, aggregate, skip, tumbling
from fluvial.planner import Settings
from fluvial.planner.planner import plan
from fluvial.runtime.containers.start import SupervisedContainers, run_containers
from fluvial.runtime.local.stores.task_stores import store_folders, store_for
from fluvial.runtime.pipeline_loader import load_pipeline
from fluvial.runtime.state import RocksStore
from fluvial.runtime.systems import KafkaSystem, LogSystem
from fluvial.runtime.testing import PipelineDriver
from kafka.broker import Broker
from kafka.container_runs import PATIENCE, kill, make_yard

VALUE = b"x" * 2_000
MEBIBYTES = 4
PROGRAM = """
from datetime import timedelta
from fluvial.dsl import Pipeline, aggregate, tumbling


def longer(text: str, value: str) -> str:
    return text + value


pipeline = Pipeline("p")
keyed = pipeline.stream("in", value=str, key=str)
kept = keyed.window(tumbling(timedelta(days=1)), aggregate(str, longer), id="w")
kept.map(lambda pane: f"{pane.key} {len(pane.value)}").send_to("out", value=str)
"""
"""State that is as large as its input."""


def target(folder: Path) -> str:
    (folder / "large.py").write_text(PROGRAM)
    return f"{folder / 'large.py'}:pipeline"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "small", MEBIBYTES) as disk:
        yield disk


@pytest.fixture
def keys() -> int:
    """So many of them do not fit on the disk."""
    return 4 * (MEBIBYTES << 20) // len(VALUE)


@pytest.fixture
def system(tmp_path: Path, keys: int) -> LogSystem:
    log = LogSystem(tmp_path / "log", fsync=False)
    parts = [[(b"%d" % key, VALUE, 0, ()) for key in range(part, keys, 2)] for part in range(2)]
    write(log, {"in": parts})
    return log


def assert_all_was_kept(system: LogSystem, keys: int) -> None:
    told = {record[1] for record in contents(system, "out")}
    assert told == {b"%d %d" % (key, len(VALUE)) for key in range(keys)}


@pytest.mark.slow
def test_containers_on_a_full_disk_say_so_and_go_on_once_there_is_room(
    disk: SmallDisk, system: LogSystem, keys: int, tmp_path: Path
) -> None:
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if "is started again" in line:
            disk.grow(100 * MEBIBYTES)

    settings = Settings(state_dir=str(disk.folder), commit_interval=timedelta(0), cached_entries=100)
    word = target(tmp_path)
    run_containers(
        load_pipeline(word), word, system, settings, "end", SupervisedContainers(number=2), progress=None, say=say
    )
    text = "\n".join(said)
    assert "No space left on device" in text
    assert "free space on the disk" in text
    assert "ended with exit code 4; it is started again" in text
    assert "Traceback" not in text
    assert_all_was_kept(system, keys)


def test_a_store_that_cannot_be_closed_hides_no_earlier_error(disk: SmallDisk) -> None:
    def fill() -> None:
        with ExitStack() as stack:
            store = RocksStore(disk.folder / "store")
            stack.callback(store.close)
            while True:
                store.write([(b"p\0", os.urandom(8), os.urandom(100_000))])

    error = error_of(fill, SystemProblem)
    assert_explains(error, "cannot be written to: IO error: No space left on device", None, "free space", "free space")


def test_a_store_that_has_a_copy_is_not_given_up_on_a_full_disk(disk: SmallDisk) -> None:
    written = 0

    def fill() -> None:
        nonlocal written
        while True:
            store.write([(b"p\0", b"%d" % written, os.urandom(100_000))])
            written += 1

    store = RocksStore(disk.folder / "store", spare=True)
    error_of(fill, SystemProblem)
    store.close()
    error = error_of(lambda: RocksStore(disk.folder / "store", spare=True), SystemProblem)
    assert_explains(error, "cannot be opened: IO error: No space left on device", None, "", "free space")
    disk.grow(100)
    store = RocksStore(disk.folder / "store", spare=True)
    assert len(list(store.scan(b"p\0"))) == written
    store.close()


LIMITED = """
import resource, sys
from fluvial.dsl import FluvialError
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.pipeline_loader import load_pipeline

pipeline = load_pipeline(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[3]), int(sys.argv[3])))
try:
    run(pipeline, system=sys.argv[2], until="end")
except FluvialError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "files", [20, 40, 60, *(pytest.param(files, marks=pytest.mark.long) for files in range(10, 120, 3))]
)
def test_a_run_without_open_files_to_spare_says_so(files: int, system: LogSystem, keys: int, tmp_path: Path) -> None:
    words = [sys.executable, "-c", LIMITED, target(tmp_path), system.url]
    limited = subprocess.run([*words, str(files)], capture_output=True, text=True, check=False)
    if limited.returncode:
        assert limited.returncode == SystemProblem.exit_code, limited.stderr
        assert "Too many open files" in limited.stderr
    assert subprocess.run([*words, "1000"], check=False).returncode == 0
    assert_all_was_kept(system, keys)


def test_a_function_that_finds_the_disk_full_is_no_failure_of_its_message() -> None:
    def save(_: str) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/data/saved")

    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("in", value=str).map(save).send_to("out")
    with PipelineDriver(pipeline) as driver:
        error = error_of(lambda: driver.send("in", "x"), SystemProblem)
    assert_explains(error, "No space left on device: '/data/saved'", None, "disk space", "free space on the disk")
    assert "the message at in, partition 0, offset 0" in str(error)


HOLDER = """
import sys
from pathlib import Path
from fluvial.runtime.state import RocksStore

store = RocksStore(Path(sys.argv[1]), spare=True)
store.write([(b"p\\0", b"k", b"held")])
print("open", flush=True)
sys.stdin.read()
"""


def test_a_store_that_a_stopped_process_has_open_is_made_again_elsewhere(tmp_path: Path) -> None:
    made, system = plan(_counting(), partitions={"in": 1}), KafkaSystem("localhost:1")
    settings = Settings(state_dir=str(tmp_path))

    def opened() -> Any:
        return store_for(made, "in/0", system, settings)

    def first_folder() -> Path:
        (folder,) = store_folders(made, system, settings, "in")
        return folder

    opened().close()
    folder = first_folder()
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(folder)], stdin=-1, stdout=-1) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        holder.send_signal(signal.SIGSTOP)
        store = opened()
        assert store.get(b"p\0", b"k") is None
        store.write([(b"p\0", b"k", b"new")])
        assert first_folder() != folder
        third = opened()
        assert third.get(b"p\0", b"k") is None
        third.close()
        store.close()
        holder.kill()
    again = opened()
    assert again.get(b"p\0", b"k") == b"new"
    again.close()
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [first_folder().name]


LOCKER = """
import fcntl, sys
from pathlib import Path

folder = Path(sys.argv[1])
folder.mkdir(parents=True)
with open(folder / "LOCK", "w") as file:
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("locked", flush=True)
    sys.stdin.read()
"""


def test_a_store_that_another_process_is_about_to_make_is_made_elsewhere(tmp_path: Path) -> None:
    made, system = plan(_counting(), partitions={"in": 1}), KafkaSystem("localhost:1")
    settings = Settings(state_dir=str(tmp_path))
    first = tmp_path / "p" / "container-0" / "in-0"
    with subprocess.Popen([sys.executable, "-c", LOCKER, str(first)], stdin=-1, stdout=-1) as locker:
        assert locker.stdout is not None
        assert locker.stdout.readline() == b"locked\n"
        store = store_for(made, "in/0", system, settings)
        store.write([(b"p\0", b"k", b"v")])
        assert [folder for folder in first.parent.iterdir() if (folder / "CURRENT").exists()] == [
            first.with_name("in-0~2")
        ]
        store.close()
        locker.kill()


FEW_FILES = """
import os, resource, sys
from pathlib import Path
from fluvial.dsl import SystemProblem
from fluvial.runtime.state import RocksStore

RocksStore(Path(f"{sys.argv[1]}-other"), spare=True).close()  # what is imported late is there
files = len(os.listdir("/proc/self/fd")) - 1 + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))
try:
    RocksStore(Path(sys.argv[1]), spare=True)
except SystemProblem as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("more", [0, 3, 6, *(pytest.param(more, marks=pytest.mark.long) for more in (1, 2, 4, 5, 7))])
def test_a_store_is_not_given_up_without_open_files_to_spare(more: int, tmp_path: Path) -> None:
    for _ in range(2):  # opened again, a store writes what its log holds into tables
        store = RocksStore(tmp_path / "store", spare=True)
        store.write([(b"p\0", b"k", b"kept")])
        store.close()
    words = [sys.executable, "-c", FEW_FILES, str(tmp_path / "store"), str(more)]
    limited = subprocess.run(words, capture_output=True, text=True, check=True)
    if limited.stdout:
        assert limited.stdout.startswith("SystemProblem")
        assert "too many open files" in limited.stdout.lower()
        assert "ulimit -n" in limited.stdout
    store = RocksStore(tmp_path / "store", spare=True)
    assert store.get(b"p\0", b"k") == b"kept"
    store.close()


def _counting() -> Pipeline:
    def longer(text: str, value: str) -> str:
        return text + value

    pipeline = Pipeline("p")
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(tumbling(timedelta(days=1)), aggregate(str, longer), id="w").send_to("out")
    return pipeline


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_a_container_that_stands_still_does_not_keep_its_successor_from_starting(
    broker: Broker, guarantee: Any
) -> None:
    with stage(broker, "sessions", guarantee) as on:
        on.feed()
        zombie = on.start(
            replace(on.order(), point="before ChangelogCommit._produce_changes", call=6, signal=signal.SIGSTOP)
        )
        wait_until_stopped(zombie)
        on.feed()
        on.finish(1)
        on.feed()
        zombie.process.send_signal(signal.SIGCONT)
        assert zombie.wait() == SystemProblem.exit_code, zombie.errors
        on.portions.pop()
        assert_nothing_is_missing(on.outputs(), on.expected())


SUPERVISED = """
import os, resource, sys
from pathlib import Path
from fluvial.planner import Settings
from fluvial.runtime.containers.start import run_containers
from fluvial.runtime.systems import open_system
from fluvial.runtime.pipeline_loader import load_pipeline

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)


def say(line):
    print(line, flush=True)
    if "cannot be started" in line:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1000, hard))


target, system = sys.argv[1:]
from fluvial.runtime.containers import start
begun = start.supervise

def limited(*arguments, **named):
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 8, hard))
    return begun(*arguments, **named)

start.supervise = limited
run_containers(
    load_pipeline(target), target, open_system(system), Settings(), "end",
    start.SupervisedContainers(number=2), progress=None, say=say,
)
"""


@pytest.mark.slow
def test_a_supervisor_without_open_files_to_spare_tries_again(system: LogSystem, keys: int, tmp_path: Path) -> None:
    words = [sys.executable, "-c", SUPERVISED, target(tmp_path), system.url]
    ended = subprocess.run(words, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr + ended.stdout
    assert "cannot be started: [Errno 24] Too many open files" in ended.stdout
    assert "ended with exit code 4; it is started again" in ended.stdout
    assert_all_was_kept(system, keys)


@pytest.mark.slow
def test_containers_that_can_say_nothing_are_started_again(tmp_path: Path) -> None:
    yard = make_yard(LogSystem(tmp_path / "log", fsync=False), tmp_path)
    with open("/dev/full", "wb") as full, yard.running("sessions", "--containers", "2", stderr=full.fileno()) as run:
        first = yard.container("sessions", 0, run)
        assert first is not None
        kill(first)
        assert yard.container("sessions", 0, run, first.incarnation) is not None
        run.send_signal(signal.SIGTERM)
        assert run.wait(PATIENCE) == 0
