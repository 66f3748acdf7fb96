"""Runs on a disk that is full, and without descriptors: they end with the reason, and go on where they were."""

import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from engines.targets import contents, write
from fluvial.dsl.message import Record
from fluvial.runtime.systems import LogSystem

FLUVIAL = str(Path(sys.executable).with_name("fluvial"))
WORDS = 400
PIPELINE = """
from fluvial.dsl import Pipeline

long = Pipeline("long")
words = long.stream("words", value=str).map(lambda word: word * 500)
words.partition_by(lambda word: word[:4], id="by", key_type=str, value=str).send_to("out", value=str)
"""


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 512 KB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if shutil.which("mount") is None or remount(folder, "size=512k", "tmpfs"):
        pytest.skip("only root may mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)


def remount(folder: Path, options: str, *source: str) -> int:
    words = ["-t", "tmpfs", *source] if source else []
    return subprocess.run(["mount", *words, "-o", options, folder], capture_output=True, check=False).returncode


def run(
    folder: Path, system: LogSystem, before: Callable[[], None] | None = None
) -> "subprocess.CompletedProcess[str]":
    (folder / "long.py").write_text(PIPELINE)
    words = [FLUVIAL, "run", f"{folder}/long.py", "--system", system.url, "--until", "end", "--commit-interval", "20ms"]
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False, preexec_fn=before)


def feed(system: LogSystem, partitions: int) -> None:
    records: list[list[Record]] = [[] for _ in range(partitions)]
    for number in range(WORDS):
        records[number % partitions].append((None, b"%04d" % number, number, ()))
    write(system, {"words": records})


def written(system: LogSystem) -> list[bytes]:
    return sorted((record[1] or b"")[:4] for record in contents(system, "out"))


def test_a_full_disk_ends_a_run_which_goes_on_once_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    system = LogSystem(small_disk / "log", fsync=False)
    feed(system, 2)
    ended = run(tmp_path, system)
    assert (ended.returncode, "No space left on device" in ended.stderr) == (4, True), ended.stderr
    assert str(small_disk) in ended.stderr
    found = written(system)
    assert len(found) == len(set(found)) < WORDS
    assert remount(small_disk, "remount,size=64m") == 0
    again = run(tmp_path, system)
    assert again.returncode == 0, again.stderr
    assert written(system) == [b"%04d" % number for number in range(WORDS)]


def test_a_run_without_descriptors_ends_and_goes_on_where_there_are_some(tmp_path: Path) -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    feed(system, 100)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    ended = run(tmp_path, system, partial(resource.setrlimit, resource.RLIMIT_NOFILE, (70, most)))
    assert (ended.returncode, "Too many open files" in ended.stderr) == (4, True), ended.stderr
    assert str(tmp_path / "log") in ended.stderr
    again = run(tmp_path, system)
    assert again.returncode == 0, again.stderr
    assert written(system) == [b"%04d" % number for number in range(WORDS)]
