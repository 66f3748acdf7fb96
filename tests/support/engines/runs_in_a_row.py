"""Pipelines that run several times in a row, and the engines and systems that they run on."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from msgspec.structs import replace

from engines.apart import apart
from engines.conformance import DEAR
from engines.conformance import TARGETS as CASE_TARGETS
from engines.targets import append, namespace, outputs_of
from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.launch import Until
from fluvial.runtime.systems import LogSystem, System

Values = Mapping[str, Sequence[str]]
RunPipeline = Callable[[Pipeline, Until, Settings], object]


@dataclass(frozen=True)
class OneRun:
    """What one run finds in the stream `in`, by partition, and what it writes."""

    found: Sequence[Sequence[Record]]
    written: Values
    until: Until = "caught-up"


@dataclass(frozen=True)
class Runs:
    """A pipeline that runs several times."""

    id: str
    pipeline: Callable[[], Pipeline]
    runs: Sequence[OneRun]
    settings: Settings = field(default_factory=Settings)

    def __str__(self) -> str:
        return self.id


def words(*messages: tuple[str, int]) -> list[Record]:
    """Messages of one key, with their times."""
    return [(b"k", word.encode(), time, ()) for word, time in messages]


@contextmanager
def local_log(_: Any) -> Iterator[tuple[System, RunPipeline]]:
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        yield system, lambda pipeline, until, settings: run(pipeline, system=system, until=until, settings=settings)


@contextmanager
def split_in_4(request: Any) -> Iterator[tuple[System, RunPipeline]]:
    with local_log(request) as (system, run_whole):
        yield system, lambda pipeline, until, settings: run_whole(pipeline, until, replace(settings, elasticity=4))


@contextmanager
def local_kafka(request: Any) -> Iterator[tuple[System, RunPipeline]]:
    system = namespace(request.getfixturevalue("broker"))
    with TemporaryDirectory() as folder:
        yield (
            system,
            lambda pipeline, until, settings: run(
                pipeline, system=system, until=until, settings=replace(settings, state_dir=folder)
            ),
        )


@contextmanager
def spark_log(request: Any) -> Iterator[tuple[System, RunPipeline]]:
    spark = request.getfixturevalue("spark")
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        yield (
            system,
            lambda pipeline, until, settings: run(
                pipeline, engine="spark", system=system, until=until, settings=settings, spark=spark
            ),
        )


@contextmanager
def spark_kafka(request: Any) -> Iterator[tuple[System, RunPipeline]]:
    spark, space = request.getfixturevalue("spark"), namespace(request.getfixturevalue("broker"))
    with TemporaryDirectory() as folder:

        def run_apart(pipeline: Pipeline, until: Until, settings: Settings) -> None:
            kept = replace(settings, state_dir=folder)
            made = apart(pipeline, space.prefix)
            run(made, engine="spark", system=space.system, until=until, settings=kept, spark=spark)

        yield space, run_apart


TARGETS = {
    "local-log": local_log,
    "local-log-split-in-4": split_in_4,
    "local-kafka": local_kafka,
    "spark-log": spark_log,
    "spark-kafka": spark_kafka,
}


USUAL = 1
"""The number of cases of a file that run on Spark, and on Kafka, in each run of the tests."""


def on_targets(cases: Sequence[Runs]) -> list[Any]:
    """The cases with their targets, as parameters of a test. On Spark with Kafka there is the first case alone, at
    length: what an operator keeps between two runs does not depend on the system, and each run starts queries anew.
    Since a case takes half a minute on Spark, and ten seconds on Kafka, most run there at length alone, too;
    `tests/properties/test_ends_of_input.py` cuts random pipelines into runs in the lowering to Spark."""
    return [
        pytest.param(case, name, marks=_marks(name, number), id=f"{case}-{name}")
        for name in TARGETS
        for number, case in enumerate(cases[:1] if name == "spark-kafka" else cases)
    ]


def _marks(target: str, number: int) -> list[pytest.MarkDecorator]:
    at_length = target == "spark-kafka" or (target in DEAR and number >= USUAL)
    return [*CASE_TARGETS[target][1], *([pytest.mark.long] if at_length else [])]


def assert_each_run_writes_what_it_should(case: Runs, target: str, request: pytest.FixtureRequest) -> None:
    """Run a case on a target, and compare what each run writes."""
    name = case.pipeline().name
    with TARGETS[target](request) as (system, run_pipeline):
        system.admin().create("in", len(case.runs[0].found))
        before: Counter[tuple[str, str]] = Counter()
        for number, one in enumerate(case.runs):
            for partition, records in enumerate(one.found):
                append(system, "in", partition, records)
            run_pipeline(case.pipeline(), one.until, case.settings)
            now = _values_of(system, name)
            expected = Counter((stream, value) for stream, values in one.written.items() for value in values)
            assert now - before == expected, f"run {number} wrote {now - before}, not {expected}"
            before = now


def _values_of(system: System, pipeline: str) -> Counter[tuple[str, str]]:
    outputs = outputs_of(system, {"in"}, pipeline)
    return Counter((stream, _text_of(one[1])) for stream, messages in outputs.items() for one in messages)


def _text_of(value: bytes | None) -> str:
    assert value is not None
    return value.decode()
