"""A full disk, a disk that fails, no more descriptors: the error says so, and whoever starts later goes on."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fluvial.dsl.errors import SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.systems.log import LogProducer, LogReader, LogSystem
from generators import how_many
from generators.how_many import examples

Numbered = Callable[..., list[Record]]
STEPS = 6
NUMBERS = [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EMFILE]
FILES = ["open", "stat", "fstat", "unlink", "listdir", "scandir", "mkdir", "replace"]
CALLS = [*FILES, "pwrite", "pread", "ftruncate", "truncate", "fdatasync", "fsync"]


class Failing:
    """The calls of the operating system, of which `length` fail after the first `left`; a write may do half before."""

    def __init__(self, left: int, length: int, number: int, *, half: bool) -> None:
        self.left, self.length, self.number, self.half = left, length, number, half

    @contextmanager
    def at_work(self, calls: Sequence[str] = CALLS) -> Iterator[None]:
        with ExitStack() as stack:
            for name in calls:
                if hasattr(os, name):
                    stack.enter_context(patch.object(os, name, self._failing(name, getattr(os, name))))
            yield

    def _failing(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **named: Any) -> Any:
            self.left -= 1
            if not -self.length <= self.left < 0:
                return call(*args, **named)
            if name == "pwrite" and self.half:
                call(args[0], args[1][: len(args[1]) // 2], args[2])
            raise OSError(self.number, os.strerror(self.number))

        return counted


def log_in(home: Path) -> LogSystem:
    return LogSystem(home / "log", compact_bytes=300, segment_bytes=150)


def work(home: Path, log: LogSystem, producer: LogProducer) -> None:
    """Go on from the last checkpoint: each step writes its number to both partitions, with the checkpoint.

    Every other step is prepared and published by its token, which is kept as a store keeps it; the second partition is
    read and trimmed.
    """
    kept = home / "token"
    with suppress(FileNotFoundError):
        producer.publish(kept.read_bytes())
    for number in range(done(log), STEPS):
        writing = producer.begin()
        for partition in (0, 1):
            writing.append("numbers", partition, [(None, b"%d" % number, number, ())])
        checkpoint = {"task": b"%d" % (number + 1)}
        if number % 2:
            writing.commit("work", checkpoint)
        else:
            (home / "token.new").write_bytes(writing.prepare("work", checkpoint))
            (home / "token.new").rename(kept)
            producer.publish(kept.read_bytes())
        read(log, 0)
        producer.trim({("numbers", 1): number})


def done(log: LogSystem) -> int:
    log.admin().create("numbers", 2)
    return int(log.admin().checkpoints("work").get("task", b"0"))


def read(log: LogSystem, partition: int) -> list[int]:
    start, end = log.admin().starts("numbers")[partition], log.admin().ends("numbers")[partition]
    with closing(LogReader(log.directory)) as reader:
        return [record[2] for batch in reader.read("numbers", partition, start, end) for record in batch.records]


def check(log: LogSystem) -> None:
    """Both partitions have what the checkpoint says, each number once."""
    reached = done(log)
    assert read(log, 0) == list(range(reached))
    assert read(log, 1) == list(range(reached))[log.admin().starts("numbers")[1] :]


@settings(max_examples=examples(240))
@example(left=29, length=10**9, number=errno.ENOSPC, half=False, same=False)  # the first read of the mark
@given(
    left=st.integers(0, 700),
    length=st.integers(1, 4) | st.just(10**9),
    number=st.sampled_from(NUMBERS),
    half=st.booleans(),
    same=st.booleans(),
)
def test_whatever_call_fails_the_error_says_so_and_the_work_goes_on(
    left: int, length: int, number: int, half: bool, same: bool
) -> None:
    with TemporaryDirectory() as folder:
        home, log = Path(folder), log_in(Path(folder))
        producer = log.producer() if same else None
        told = f"{os.strerror(number)} {folder} xpected"
        with Failing(left, length, number, half=half).at_work():
            try:
                producer = producer or log.producer()
                work(home, log, producer)
            except SystemProblem as problem:
                told = str(problem)
            if not same and producer is not None:
                producer.close()
        assert all(part in told for part in (os.strerror(number), folder, "xpected")), told
        check(log)
        work(home, log, producer if same and producer is not None else log_in(home).producer())
        check(log)
        assert done(log) == STEPS


def test_after_a_sync_that_failed_nothing_of_its_file_is_published(
    log: LogSystem, numbered: Numbered, read: Callable[..., list[Record]]
) -> None:
    """The system may have dropped what it could not write, and the next sync of the file would say nothing of it."""
    producer = LogSystem(log.directory).producer()
    first, second = producer.begin(), producer.begin()
    for writing in (first, second):
        writing.append("clicks", 0, numbered(5_000))
    with (
        Failing(0, 1, errno.EIO, half=False).at_work(["fdatasync"]),
        pytest.raises(SystemProblem, match=r"could not sync .*seg"),
    ):
        first.commit()
    with pytest.raises(SystemProblem, match=r"seg could not be synced before"):
        second.commit()
    third = producer.begin()
    third.append("clicks", 0, numbered(2))
    third.commit()
    assert read(log, "clicks") == numbered(2)


DESCRIPTORS = """
import os, resource, sys
from pathlib import Path
from fluvial.dsl.errors import SystemProblem
sys.path.insert(0, sys.argv[1])
import test_no_room as steps

for more in range(12):
    home = Path(sys.argv[2], str(more))
    home.mkdir()
    log = steps.log_in(home)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1 + more, most))
    try:
        steps.work(home, log, log.producer())
        print("done")
    except SystemProblem as problem:
        assert "Too many open files" in str(problem) and "ulimit -n" in str(problem) and str(home) in str(problem)
        print("refused")
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    steps.check(log)
    steps.work(home, log, log.producer())
    steps.check(log)
    assert steps.done(log) == steps.STEPS
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
def test_descriptors_that_run_out_are_named(tmp_path: Path) -> None:
    command = [sys.executable, "-c", DESCRIPTORS, str(Path(__file__).parent), str(tmp_path)]
    support = str(Path(how_many.__file__).parents[1])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([support, os.environ.get("PYTHONPATH", "")])}
    found = subprocess.run(command, capture_output=True, text=True, check=False, env=env)
    assert (found.returncode, found.stderr) == (0, "")
    assert found.stdout.split()[0] == "refused"
    assert found.stdout.split()[-1] == "done"
