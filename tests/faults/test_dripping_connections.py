"""Clients that open connections and send a byte now and then: the run goes on, and answers others."""

import resource
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Self
from urllib.request import urlopen

import pytest

from engines.targets import contents, write
from fluvial.runtime.systems import LogSystem
from kafka.container_runs import FLUVIAL
from waiting import wait_until

PROGRAM = """
from fluvial.dsl import Pipeline

pipeline = Pipeline("copy")
pipeline.stream("words", value=str).send_to("copies", value=str)
"""
FILES = 200
"""What the run may open: far less than connections."""


@pytest.fixture(autouse=True)
def _many_files() -> Iterator[None]:
    """This process may hold as many connections as the test wants."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if 0 <= hard < 4096 else 4096, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@contextmanager
def serving(folder: Path, log: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A run without end, and where its metrics are."""
    (folder / "copy_words.py").write_text(PROGRAM)
    words = [FLUVIAL, "run", "copy_words.py", "--system", f"log:{log}"]
    few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))  # noqa: E731 - one line
    run = subprocess.Popen(
        [*words, "--metrics-port", "0"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=few,  # noqa: PLW1509 - no thread has been started
    )
    try:
        assert run.stderr is not None
        line = next(line for line in run.stderr if line.startswith("metrics at "))
        yield run, line.removeprefix("metrics at ").removesuffix("/metrics\n")
    finally:
        run.kill()
        run.communicate()


class Drip:
    """A client that holds so many connections open, and opens others where they are ended."""

    def __init__(self, url: str, connections: int) -> None:
        self._at = (url.split("/")[2].partition(":")[0], int(url.rpartition(":")[2]))
        self._connections = connections
        self._held: set[socket.socket] = set()
        self._over = Event()
        self._threads = [Thread(target=do) for do in (self._open, self._drip)]
        self.opened = 0

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
        for one in self._held:
            one.close()

    def _open(self) -> None:
        while not self._over.wait(0.001):
            while len(self._held) < self._connections and not self._over.is_set():
                with suppress(OSError):
                    one = socket.create_connection(self._at, timeout=5)
                    one.sendall(b"GET / HTTP/1.1\r\nX: ")
                    self._held.add(one)
                    self.opened += 1

    def _drip(self) -> None:
        while not self._over.wait(0.2):
            for one in list(self._held):
                try:
                    one.sendall(b"a")
                except OSError:
                    self._held.discard(one)
                    one.close()


def answers(url: str) -> bool:
    """Whether a client that sends its request at once is answered, perhaps not at the first try."""
    for _ in range(100):
        with suppress(OSError), urlopen(f"{url}/livez", timeout=10) as answer:
            return bool(answer.status == 200)
    return False


@pytest.mark.parametrize(
    ("connections", "rounds"), [(300, 2), pytest.param(1000, 10, marks=[pytest.mark.long, pytest.mark.slow])]
)
def test_a_run_goes_on_whoever_drips(tmp_path: Path, connections: int, rounds: int) -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"words": [[]]})
    with serving(tmp_path, tmp_path / "log") as (run, url), Drip(url, connections) as drip:

        def until(holds: Callable[[], bool], awaited: str) -> None:
            wait_until(lambda: holds() or run.poll() is not None, awaited)
            assert run.poll() is None

        def all_drip(rounds: int) -> bool:
            return drip.opened >= rounds * connections

        def are_copied(words: int) -> bool:
            return len(contents(system, "copies")) >= words

        for number in range(rounds):
            until(partial(all_drip, number + 1), "all connections drip")
            write(system, {"words": [[(None, b"word %d" % number, number, ())]]})
            until(partial(are_copied, number + 1), "the word is copied")
            assert answers(url)
        run.send_signal(signal.SIGTERM)
        assert run.wait() == 0
