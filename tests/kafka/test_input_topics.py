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
from kafka.broker import Broker

pytestmark = pytest.mark.kafka

ANOTHER = "is not the one that pipeline '.*' has read: it was deleted and created again"


class Enough(Exception):
    """The run has shown what it was to show."""


class Place:
    """A topic, and the pipeline that copies it to another."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.name = f"inputs-{uuid4().hex[:8]}"
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


def test_a_topic_that_was_made_anew_is_told_and_read_from_its_start_after_a_reset(place: Place) -> None:
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


@pytest.mark.usefixtures("soon")
def test_partitions_that_come_while_a_run_goes_on_are_warned_of_and_the_next_run_reads_them(place: Place) -> None:
    place.write(1)
    grown = False

    def act(progress: Progress) -> None:
        nonlocal grown
        if progress.read == 1 and not grown:
            grown = True
            place.grow(3)
            place.write(2, partition=2)
        if progress.warnings:
            assert f"partitions of {place.name}-in" in progress.warnings
            raise Enough

    with pytest.raises(Enough):
        place.run(act)
    place.settings = Settings(state_dir=place.settings.state_dir, offset_default="latest")
    place.run()
    assert {*place.written} == {1, 2}
