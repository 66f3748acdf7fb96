"""Runs on Kafka that are killed and begun again: what goes in, what comes out, and the processes in between."""

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import gmtime, strftime
from typing import Any
from uuid import uuid4

from msgspec import json

from engines.comparing import counted
from engines.targets import output_streams, outputs_of
from faults import mortal
from faults.mortal import PIPELINES, Order
from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.planner.settings import Guarantee
from fluvial.runtime.launch import Until
from kafka.broker import Broker
from oracle.interpreter import Outputs, run_oracle
from waiting import wait_until

Portion = list[list[Record]]
"""Records of the two partitions of an input, in order."""

SOURCES = {"sessions": "access-log"}
"""What pipelines read that do not read words."""
PATIENCE = 200.0
ROOT = Path(__file__).parents[3]
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests' / 'support'}",
    "PYTHONFAULTHANDLER": "1",
}
"""Where examples are found, and what tests share; and a process that dies of a fault in a library says where it was."""
BEGIN = 1_431_857_100


def portion(pipeline: str, number: int, size: int = 16) -> Portion:
    """Some of the input of a pipeline, by which those before it go on."""
    made = lines if pipeline == "sessions" else words
    return [made(number, partition, size) for partition in range(2)]


def words(number: int, partition: int, size: int) -> list[Record]:
    first = number * size
    return [(None, b"%d-%d" % (partition, index), 1_000 + index, ()) for index in range(first, first + size)]


def lines(number: int, partition: int, size: int) -> list[Record]:
    """Lines of an access log, some of them garbled, none later than the rest by a minute; visits come and go."""
    random = Random(f"{number}/{partition}")
    made: list[Record] = []
    for index in range(size):
        seconds = BEGIN + (number * size + index) * 240 - random.randrange(50)
        time = strftime("%d/%b/%Y:%H:%M:%S +0000", gmtime(seconds))
        visitor = f"10.0.0.{random.randrange(9)}"
        line = f'{visitor} - - [{time}] "GET /{partition}/{number}/{index} HTTP/1.1" 200 {index + 1} "-" "-"'
        made.append((None, (line[:20] if random.random() < 0.1 else line).encode(), seconds * 1000, ()))
    return made


def whole(portions: Sequence[Portion]) -> Portion:
    """All portions, one after the other."""
    return [[record for part in portions for record in part[partition]] for partition in range(2)]


@dataclass
class Stage:
    """A part of a broker of its own, with the input of one pipeline, and a folder for the state of its containers."""

    broker: Broker
    folder: Path
    pipeline: str
    guarantee: Guarantee
    prefix: str = field(default_factory=lambda: f"{uuid4().hex[:8]}.")
    portions: list[Portion] = field(default_factory=list)
    alive: list["Run"] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.system = self.order().system
        self.system.admin().create(self.source, 2)
        self._producer = self.system.producer()

    @property
    def source(self) -> str:
        return SOURCES.get(self.pipeline, "words")

    def order(self, container: int = 0, containers: int = 1, until: Until = "stopped") -> Order:
        return Order(
            servers=self.broker.address,
            prefix=self.prefix,
            pipeline=self.pipeline,
            folder=str(self.folder),
            guarantee=self.guarantee,
            container=container,
            containers=containers,
            until=until,
        )

    def feed(self, size: int = 16) -> None:
        """Write the next portion of the input."""
        added = portion(self.pipeline, len(self.portions), size)
        self.portions.append(added)
        writing = self._producer.begin()
        for partition, records in enumerate(added):
            writing.append(self.source, partition, records)
        writing.commit()

    def start(self, order: Order, *, anew: bool = False) -> "Run":
        """Begin a run; `anew` loses the state of the container first."""
        if anew:
            self.lose(order)
        run = Run(order)
        self.alive.append(run)
        return run

    def lose(self, order: Order) -> None:
        """Lose the state of a container."""
        shutil.rmtree(order.state, ignore_errors=True)

    def build(self) -> Pipeline:
        return PIPELINES[self.pipeline]()

    def finish(self, containers: int) -> None:
        """Run to the end of the input; all containers must end well."""
        runs = [self.start(self.order(number, containers, "end")) for number in range(containers)]
        for run in runs:
            assert run.wait() == 0, run.errors

    def outputs(self) -> Outputs:
        """What a reader sees who sees what is committed."""
        found = outputs_of(self.system, {self.source}, self.build().name)
        return {name: records for name, records in found.items() if records}

    def wait_for_output(self) -> None:
        """Return once such a reader sees something."""
        admin, pipeline = self.system.admin(), self.build().name

        def is_there() -> bool:
            return any(any(admin.ends(name)) for name in output_streams(admin, {self.source}, pipeline))

        wait_until(is_there, "there is an output", PATIENCE)

    def expected(self) -> Outputs:
        return run_oracle(self.build(), {self.source: whole(self.portions)})

    @property
    def ended(self) -> Counter[str]:
        """The points at which runs have ended."""
        notes = self.order().notes
        return Counter(notes.read_text().splitlines() if notes.exists() else [])


class Run:
    """A process that obeys an order."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._output = Path(order.folder) / f"errors-{uuid4().hex[:8]}"
        command = [sys.executable, mortal.__file__, json.encode(order).decode()]
        with self._output.open("wb") as errors:
            self.process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=errors)

    def wait(self) -> int:
        """Until it has ended; its exit code, negative for the signal that killed it. One that does not end is made to
        say where it is."""
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            for told in (signal.SIGABRT, signal.SIGCONT):  # also one that was stopped
                self.process.send_signal(told)
            self.process.wait()
            raise AssertionError(f"not ended after {PATIENCE:g} s: {self.errors}") from None

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    @property
    def errors(self) -> str:
        """What it has to say."""
        return self._output.read_text()


def wait_until_stopped(run: Run) -> None:
    """Return once a run has stopped itself, as its order wants."""
    os.waitid(os.P_PID, run.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    assert run.process.poll() is None, run.errors


@contextmanager
def stage(broker: Broker, pipeline: str, guarantee: Guarantee) -> Iterator[Stage]:
    """A stage on which nothing has happened; in the end no run is left."""
    with TemporaryDirectory() as folder:
        made = Stage(broker, Path(folder), pipeline, guarantee)
        try:
            yield made
        finally:
            for run in made.alive:
                run.kill()


def assert_nothing_is_missing(actual: Mapping[str, Sequence[Record]], expected: Mapping[str, Sequence[Record]]) -> None:
    """All that is unexpected are repeats."""
    for stream in sorted({*actual, *expected}):
        found, wanted = (_as_repeated(stream, records.get(stream, ())) for records in (actual, expected))
        assert {*found} == {*wanted}
        if stream != "sessions":
            assert not wanted - found
        for session, counts in wanted.items() if stream == "sessions" else ():
            assert min(found[session]) >= min(counts), session


def _as_repeated(stream: str, records: Sequence[Record]) -> Any:
    """Behind a border repeats are counted, so that sessions may count more; nothing else about them may change."""
    if stream != "sessions":
        return counted(stream, records)
    found: dict[Any, list[tuple[int, int]]] = {}
    for key, value, timestamp, _ in records:
        session = json.decode(value or b"")
        counts = session.pop("pages"), session.pop("bytes")
        found.setdefault((key, tuple(session.items()), timestamp), []).append(counts)
    return found
