"""Topics that are deleted and made anew, or given partitions, while a pipeline reads them or between two runs."""

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from engines.targets import contents
from fluvial.dsl import Pipeline, SystemProblem
from fluvial.planner import Settings
from fluvial.runtime import KafkaSystem, reset, run
from fluvial.runtime.cli.commands.check import check
from fluvial.runtime.preflight import input_streams
from fluvial.runtime.report import Progress
from fluvial.runtime.systems.partitioner import partition_for
from generators.counters import Counter
from kafka.broker import Broker

pytestmark = pytest.mark.kafka

AGE_MS = 500
"""How soon clients hear of new partitions."""
ANOTHER = "is not the one that pipeline '.*' has read: it was deleted and created again"


class Enough(Exception):
    """The run has shown what it was to show."""


class Place:
    """A topic, and the pipeline that copies it to another."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.name = f"inputs-{uuid4().hex[:8]}"
        self.address = broker.address
        self.system = KafkaSystem(broker.address)
        self.settings = Settings(state_dir=str(folder))
        self._broker = broker
        self.make()

    @property
    def pipeline(self) -> Pipeline:
        pipeline = Pipeline(self.name)
        pipeline.stream(f"{self.name}-in", value=int).send_to(f"{self.name}-out")
        return pipeline

    def make(self) -> None:
        self.system.admin().create(f"{self.name}-in", 1)

    def make_anew(self, *numbers: int) -> None:
        self._broker.remove_topics(f"{self.name}-in")
        self.make()
        self.write(*numbers)

    def write(self, *numbers: int, partition: int = 0) -> None:
        writing = self.system.producer().begin()
        writing.append(f"{self.name}-in", partition, [(None, b"%d" % number, 1_000, ()) for number in numbers])
        writing.commit()

    def grow(self, partitions: int) -> None:
        self._broker.grow_topic(f"{self.name}-in", partitions)

    def run(self, act: Callable[[Progress], None] | None = None) -> None:
        run(
            self.pipeline,
            system=self.system,
            settings=self.settings,
            until="end" if act is None else "stopped",
            progress=act,
        )

    @property
    def written(self) -> list[int]:
        return sorted(int(record[1] or b"") for record in contents(self.system, f"{self.name}-out"))


@pytest.fixture
def place(broker: Broker, tmp_path: Path) -> Place:
    return Place(broker, tmp_path)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streams are looked at again soon."""
    monkeypatch.setattr(input_streams, "CHECK_SECONDS", 0.05)


def test_a_topic_that_was_made_anew_is_reported_and_read_from_its_start_after_a_reset(place: Place) -> None:
    place.write(*range(10))
    place.run()
    place.make_anew(*range(10, 25))
    with pytest.raises(SystemProblem, match=ANOTHER):
        place.run()
    (found,) = (found for found in check(place.pipeline, "local", place.system) if found.code)
    assert (found.text.startswith(f"input: the stream '{place.name}-in'"), found.code) == (True, 4)
    reset(place.pipeline, inputs=[f"{place.name}-in"], system=place.system)
    place.run()
    assert place.written == list(range(25))


@pytest.mark.usefixtures("soon")
def test_a_topic_that_is_made_anew_while_it_is_read_ends_the_run_and_keeps_the_next_from_starting(place: Place) -> None:
    place.write(*range(10))
    made = False

    def act(progress: Progress) -> None:
        nonlocal made
        if progress.read == 10 and not made:
            made = True
            place.make_anew(*range(10, 25))

    with pytest.raises(SystemProblem, match=ANOTHER):
        place.run(act)
    with pytest.raises(SystemProblem, match=ANOTHER):
        place.run()


def test_partitions_that_come_while_a_run_goes_on_are_read_by_it(place: Place) -> None:
    place.system = KafkaSystem(place.address, conf={"metadata.max.age.ms": AGE_MS})
    place.write(1)
    grown = 0

    def act(progress: Progress) -> None:
        nonlocal grown
        if progress.read == 1 and not grown:
            grown = 3
            place.grow(3)
            place.write(2, partition=2)
        if progress.read == 2 and grown == 3:
            grown = 5
            place.grow(5)
            place.write(3, partition=4)
        if progress.read == 3:
            raise Enough

    with pytest.raises(Enough):
        place.run(act)
    assert {*place.written} == {1, 2, 3}
    place.write(4, partition=3)
    place.run()  # it goes on in one task, with what five partitions hold
    assert {*place.written} == {1, 2, 3, 4}


def counting(name: str) -> Pipeline:
    pipeline = Pipeline(name)
    pipeline.stream(f"{name}-in", key=str, value=str).process(Counter(), id="n").send_to(f"{name}-out")
    return pipeline


def test_state_stays_with_its_keys_as_a_topic_grows_and_their_order_is_kept(broker: Broker, tmp_path: Path) -> None:
    name, keys = f"grows-{uuid4().hex[:8]}", [f"k{number}" for number in range(12)]
    system = KafkaSystem(broker.address, conf={"metadata.max.age.ms": AGE_MS})
    system.admin().create(f"{name}-in", 2)

    def write(partitions: int) -> None:
        writing = system.producer().begin()
        for key in keys:
            partition = partition_for(key.encode(), partitions)
            writing.append(f"{name}-in", partition, [(key.encode(), b"m", 1_000, ())])
        writing.commit()

    steps = [lambda: broker.grow_topic(f"{name}-in", 4), lambda: write(2), lambda: write(4)]

    def act(progress: Progress) -> None:
        if steps and progress.read == len(keys):
            while steps:
                steps.pop(0)()
        if progress.read == 3 * len(keys):
            raise Enough

    write(2)
    settings = Settings(state_dir=str(tmp_path), guarantee="exactly_once")
    with pytest.raises(Enough):
        run(counting(name), system=system, settings=settings, progress=act)
    write(4)
    run(counting(name), system=system, settings=settings, until="end")
    written: dict[bytes | None, list[bytes | None]] = {}
    for key, value, _, _ in contents(system, f"{name}-out"):
        written.setdefault(key, []).append(value)
    assert written == {key.encode(): [b"1", b"2", b"3", b"4"] for key in keys}
