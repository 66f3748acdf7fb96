"""Runs of several containers by the command line, as processes that can be killed, on any system."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from engines.targets import contents, write
from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.runtime.local.coordination.assignments import Presence
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.pipeline_loader import load_pipeline
from fluvial.runtime.systems import System
from oracle.interpreter import OutputMessage, run_oracle
from waiting import wait_until

PROGRAM = '''"""Pipelines slow enough to be killed in the middle of."""

import asyncio
import time
from datetime import timedelta

from fluvial.dsl import Pane, Pipeline, count, session


def slowly(word: str) -> str:
    time.sleep(0.001)
    return word


def first(word: str) -> str:
    return word[:1]


def told(pane: Pane[str, int]) -> str:
    return f"{pane.key} {pane.window.start} {pane.value}"


async def looked_up(word: str) -> list[str]:
    await asyncio.sleep(0.01)
    return [word, word.upper()]


sessions = Pipeline("NAME-s")
keyed = sessions.stream("NAME-words", value=str).map(slowly).partition_by(first, id="by", key_type=str)
keyed.window(session(timedelta(milliseconds=3)), count(), id="window").map(told).send_to("NAME-out", value=str)

lookups = Pipeline("NAME-l")
looked = lookups.stream("NAME-words", value=str).async_flat_map(looked_up, id="look", max_in_flight=3)
looked.send_to("NAME-out", value=str)
'''
PARTITIONS, WORDS = 4, 4000
INPUT: list[list[Record]] = [
    [(None, f"{'abcde'[number % 5]}{number}".encode(), number // 40 * 10 + number % 3, ()) for number in part]
    for part in (range(partition, WORDS, PARTITIONS) for partition in range(PARTITIONS))
]
PATIENCE = 250.0
FLUVIAL = str(Path(sys.executable).with_name("fluvial"))


@dataclass
class Yard:
    """A folder with pipelines, whose names are like no other, and a system with input for them."""

    system: System
    folder: Path
    name: str

    @property
    def target(self) -> Path:
        return self.folder / "slow.py"

    def pipeline(self, which: str) -> Pipeline:
        return load_pipeline(f"{self.target}:{which}")

    @contextmanager
    def running(
        self, which: str, *words: str, stdout: int = subprocess.PIPE, stderr: int = subprocess.PIPE
    ) -> "Iterator[subprocess.Popen[str]]":
        """A run by the command line, which is over at the end of the context."""
        command = [FLUVIAL, "run", f"{self.target}:{which}", "--system", self.system.url, "--commit-interval", "20ms"]
        process = subprocess.Popen([*command, *words], cwd=self.folder, stdout=stdout, stderr=stderr, text=True)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def run(self, which: str, *words: str) -> str:
        """Run to the end; what was said on stderr."""
        with self.running(which, "--until", "end", *words) as process:
            return ended(process, 0)

    def container(self, which: str, number: int, run: "subprocess.Popen[str]", but: str = "") -> Presence | None:
        """A container that runs, in another incarnation than `but`; waits for it. None if the run has ended."""
        coordinator = Coordinator(self.system, self.pipeline(which).name)

        def running() -> Presence | None:
            found = coordinator.read()[0].presences.get(number)
            return found if found is not None and found.incarnation != but and found.state == "running" else None

        found = wait_until(lambda: run.poll() is not None or running(), f"container {number} runs", PATIENCE)
        if isinstance(found, Presence):
            return found
        assert run.returncode == 0, run.communicate()[1]
        return None

    def written(self) -> Counter[OutputMessage]:
        return Counter(OutputMessage(*record) for record in contents(self.system, f"{self.name}-out"))

    def expected(self, which: str) -> Counter[OutputMessage]:
        return _expected(which)

    def missing(self, which: str) -> list[OutputMessage]:
        """What was expected and not written. Under at_least_once more may have been counted behind a border, where
        repeats are counted too."""
        written = self.written()
        if which == "lookups":
            return list((self.expected(which) - written).elements())
        counted = {_window(message): _count(message) for message in written}
        return [message for message in self.expected(which) if counted.get(_window(message), 0) < _count(message)]

    def feed_more(self) -> None:
        """Write one more word, later than all others."""
        write(self.system, {f"{self.name}-words": [[(None, b"z", WORDS, ())], [], [], []]})

    def wait_for_words(self, run: "subprocess.Popen[str]", words: str) -> str:
        """Return the line with these words, once a run has said it on stderr."""
        assert run.stderr is not None
        for line in run.stderr:
            if words in line:
                return line
        raise AssertionError(f"it ended with exit code {run.wait()} and never said {words!r}")

    def wait_for_output(self) -> None:
        """Return once something was written."""
        admin, output = self.system.admin(), f"{self.name}-out"
        wait_until(lambda: admin.partitions(output) and any(admin.ends(output)), "something is written", PATIENCE)


@cache
def _expected(which: str) -> Counter[OutputMessage]:
    """What the oracle writes, which names and slowness of the pipelines change nothing in."""
    if which == "lookups":  # for which the oracle would wait, one after the other
        found = ((word, timestamp) for part in INPUT for _, word, timestamp, _ in part if word is not None)
        return Counter(OutputMessage(None, one, at, ()) for word, at in found for one in (word, word.upper()))
    with TemporaryDirectory() as folder:
        target = Path(folder) / "quick.py"
        target.write_text(PROGRAM.replace("time.sleep(0.001)", "pass"))
        return Counter(run_oracle(load_pipeline(f"{target}:{which}"), {"NAME-words": INPUT})["NAME-out"])


def _window(message: OutputMessage) -> bytes:
    return (message.value or b"").rpartition(b" ")[0]


def _count(message: OutputMessage) -> int:
    return int((message.value or b"").rpartition(b" ")[2])


def make_yard(system: System, folder: Path) -> Yard:
    """Pipelines and their input."""
    yard = Yard(system, folder, f"y{uuid4().hex[:8]}")
    yard.target.write_text(PROGRAM.replace("NAME", yard.name))
    write(system, {f"{yard.name}-words": INPUT})
    return yard


def process_of(presence: Presence) -> int:
    return int(presence.process.split()[1])


def kill(presence: Presence, number: int = signal.SIGKILL) -> None:
    """Send a signal to a container, if it is still there."""
    with suppress(ProcessLookupError):
        os.kill(process_of(presence), number)


def title(presence: Presence) -> str:
    """The last word of the command line of a container's process."""
    return Path(f"/proc/{process_of(presence)}/cmdline").read_text().split("\0")[-2]


def alive(presence: Presence) -> bool:
    try:
        os.kill(process_of(presence), 0)
    except ProcessLookupError:
        return False
    return True


def ended(process: "subprocess.Popen[str]", code: int) -> str:
    """What a process said on stdout and stderr, once it has ended with this exit code."""
    report, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == code, said
    return report + said
