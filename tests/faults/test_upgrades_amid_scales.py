"""Containers that are stopped one by one and started with a newer pipeline while tasks move, are split or are merged:
nothing is lost, and under exactly_once nothing is repeated."""

import random
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

import pytest

from engines.targets import contents
from fluvial.dsl.message import Record
from fluvial.planner.task_assignment import TaskId
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.coordination.assignments import Assignment
from fluvial.runtime.local.coordination.coordinator_stream import Coordinator
from fluvial.runtime.local.handover.owners import owners_of
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.partitioner import partition_for
from kafka.broker import Broker
from kafka.container_runs import FLUVIAL, PATIENCE, Yard, ended
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.kafka, pytest.mark.long]

PROGRAM = '''"""Numbers the messages of each key, slowly, and keeps much of each."""

import time
from collections.abc import Iterator

from fluvial.dsl import Context, KeyedProcessor, Message, Pipeline, ValueState

VERSION = "v1"


class Numbering(KeyedProcessor[str, str, str]):
    seen = ValueState(int, 0)
    kept = ValueState(bytes, b"")

    def on_message(self, message: Message[str], context: Context[str]) -> Iterator[str]:
        _, word = message.value.split()
        if word == "fill":
            self.kept.value = context.key.encode() * 400
            return
        time.sleep(0.002)
        self.seen.value += 1
        yield f"{self.seen.value} {word} {VERSION}"


def key_of(words: str) -> str:
    return words.split()[0]


numbers = Pipeline("NAME-n")
keyed = numbers.stream("NAME-words", key=str, value=str).partition_by(key_of, id="by", key_type=str)
keyed.process(Numbering(), id="n").send_to("NAME-out")
'''
PARTITIONS = 2
KEYS = [f"k{number}" for number in range(40)]
FILLED = [*KEYS, *(f"filled-{number}" for number in range(8_000))]
"""Keys that are kept, so that a restore takes a while."""
ROUNDS = 5


class Upgraded:
    """A pipeline in two versions, its containers by number, and what was sent of each key."""

    def __init__(self, broker: Broker, folder: Path, stack: ExitStack, words: Sequence[str]) -> None:
        name = f"u{uuid4().hex[:8]}"
        self.yard = Yard(KafkaSystem(broker.address), folder, name)
        self.topic, self.sent, self.words, self._stack = f"{name}-words", 0, words, stack
        self.pods: dict[int, subprocess.Popen[str]] = {}
        self.yard.system.admin().create(self.topic, PARTITIONS)
        self.write("v1")
        self._write([(key.encode(), f"{key} fill".encode(), 1_000, ()) for key in FILLED])

    def write(self, version: str, change: tuple[str, str] = ("", "")) -> None:
        """Let those that start from now on have this version, and maybe a `change`: text, and what it becomes."""
        program = PROGRAM.replace("NAME", self.yard.name).replace('"v1"', f'"{version}"')
        self.yard.target.write_text(program.replace(*change))

    def _write(self, records: Sequence[Record]) -> None:
        writing = self.yard.system.producer().begin()
        for partition in range(PARTITIONS):
            mine = [record for record in records if partition_for(record[0] or b"", PARTITIONS) == partition]
            writing.append(self.topic, partition, mine)
        writing.commit()

    def send(self) -> None:
        """Send some messages of each key."""
        rounds = range(self.sent, self.sent + ROUNDS)
        self._write([(key.encode(), f"{key} {n}".encode(), 1_000, ()) for n in rounds for key in KEYS])
        self.sent += ROUNDS

    def start(self, number: int) -> None:
        words = ("--guarantee", "exactly_once", *self.words, "--container-id", str(number))
        self.pods[number] = self._stack.enter_context(self.yard.running("numbers", *words))

    def start_two(self) -> None:
        """Start two containers; both have tasks."""
        for number in range(2):
            self.start(number)
        self.send()
        self.yard.wait_for_output()
        wait_until(lambda: self.owners == {0, 1}, "both have tasks", PATIENCE)

    def end(self, number: int) -> None:
        """Stop a container."""
        pod = self.pods.pop(number)
        pod.send_signal(signal.SIGTERM)
        ended(pod, 0)

    def restart(self, number: int) -> None:
        """Stop a container, and start it anew."""
        self.end(number)
        self.start(number)

    def stop(self) -> None:
        """Stop all containers."""
        for number in [*self.pods]:
            self.end(number)

    @property
    def assignment(self) -> Assignment:
        found = Coordinator(self.yard.system, f"{self.yard.name}-n").read()[0].assignment
        assert found is not None
        return found

    @property
    def owners(self) -> set[int]:
        """The containers that have tasks."""
        return {*owners_of(self.assignment, checkpoints_in(self.yard.system, f"{self.yard.name}-n")).values()}

    @property
    def tasks(self) -> set[str]:
        return {*checkpoints_in(self.yard.system, f"{self.yard.name}-n")}

    @contextmanager
    def scaling(self, *words: str) -> "Iterator[subprocess.Popen[str]]":
        """`fluvial scale`, which has decided its change; it is over at the end of the context."""
        target, pipe, before = f"{self.yard.target}:numbers", subprocess.PIPE, self.assignment.generation
        command = [FLUVIAL, "scale", target, "--system", self.yard.system.url, *words]
        process = subprocess.Popen(command, cwd=self.yard.folder, stdout=pipe, stderr=pipe, text=True)
        try:
            wait_until(lambda: process.poll() or self.assignment.generation > before, "it is decided", PATIENCE)
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.communicate()

    @property
    def written(self) -> dict[bytes | None, list[bytes]]:
        """What was written of each key, without the version."""
        found: dict[bytes | None, list[bytes]] = {}
        for key, value, _, _ in contents(self.yard.system, f"{self.yard.name}-out"):
            found.setdefault(key, []).append((value or b"").rpartition(b" ")[0])
        return found

    def check(self) -> None:
        """All that was sent is written, once and in order."""
        wait_until(lambda: sum(map(len, self.written.values())) >= self.sent * len(KEYS), "all is written", PATIENCE)
        expected = [b"%d %d" % (n + 1, n) for n in range(self.sent)]
        assert self.written == {key.encode(): expected for key in KEYS}


@pytest.mark.parametrize("words", [(), ("--containers", "2")], ids=["by-number", "of-two"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0,), (1,), (1, 0, 1)], ids=str)
def test_tasks_are_split_and_merged_amid_a_rolling_upgrade(
    broker: Broker, tmp_path: Path, order: Sequence[int], words: Sequence[str]
) -> None:
    chance = random.Random(f"{order} {words}")
    with ExitStack() as stack:
        made = Upgraded(broker, tmp_path, stack, words)
        made.start_two()
        for version, elasticity in enumerate((4, 1, 2, 1), 2):
            with made.scaling("--elasticity", str(elasticity)) as process:
                made.write(f"v{version}")
                for number in order:
                    time.sleep(chance.uniform(0.0, 1.5))
                    made.send()
                    made.restart(number)
                ended(process, 0)
            assert {TaskId.parse(task).elasticity for task in made.tasks} == {elasticity}
        made.check()
        made.stop()


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 2, 1), (2, 0)], ids=str)
def test_tasks_move_amid_a_rolling_upgrade(broker: Broker, tmp_path: Path, order: Sequence[int]) -> None:
    """A third container joins, and is to leave. One that is too many and is started again joins once more."""
    chance = random.Random(f"{order}")
    with ExitStack() as stack:
        made = Upgraded(broker, tmp_path, stack, ())
        made.start_two()
        made.start(2)
        for number in order:
            made.write(f"v{number}")
            time.sleep(chance.uniform(0.0, 2.0))
            made.send()
            made.restart(number)
        wait_until(lambda: made.owners == {0, 1, 2}, "all have tasks", PATIENCE)
        with made.scaling("--containers", "2") as process:
            for number in order:
                time.sleep(chance.uniform(0.0, 1.0))
                made.send()
                made.restart(number)
            said = ended(process, 4 if 2 in order else 0)
        assert made.owners == ({0, 1, 2} if 2 in order else {0, 1}), said
        made.check()
        made.stop()


REFUSED = 'kept = ValueState(bytes, b"")', 'kept = ValueState(str, "")'
"""A change of what the processor's state means."""


def test_a_version_that_is_refused_leaves_the_others_as_they_are(broker: Broker, tmp_path: Path) -> None:
    with ExitStack() as stack:
        made = Upgraded(broker, tmp_path, stack, ())
        made.start_two()
        for elasticity in ("4", "1"):
            with made.scaling("--elasticity", elasticity) as process:
                made.write("v2", REFUSED)
                made.end(1)
                for number in (1, 2):  # one that has tasks, and one that has none yet
                    made.start(number)
                    said = ended(made.pods.pop(number), 3)
                    assert "the stored state of process n has another meaning: values of state kept: was bytes" in said
                    assert "to do: give it another id to start over without it, or remove its state" in said
                made.send()
                made.write("v3")
                made.start(1)
                ended(process, 0)
        made.check()
        made.stop()
