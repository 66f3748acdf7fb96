"""Conformance cases about runs that catch up: each reads what there is, and the next one goes on where it stopped."""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from msgspec.structs import replace

from engines.apart import apart
from engines.conformance import TARGETS as CASE_TARGETS
from engines.conformance import events, told
from engines.targets import append, namespace, outputs_of
from fluvial.dsl import Pipeline, collect, count, session, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.launch import Until
from fluvial.runtime.systems import LogSystem, System

TEN = timedelta(milliseconds=10)
Values = Mapping[str, Sequence[str]]
RunPipeline = Callable[[Pipeline, Until], object]


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

    def __str__(self) -> str:
        return self.id


def windows() -> Pipeline:
    pipeline = Pipeline("cu")
    pipeline.stream("in", value=str, key=str).window(tumbling(TEN), count(), id="w").map(told).send_to("out")
    return pipeline


def windows_behind_a_border() -> Pipeline:
    pipeline = Pipeline("cu")
    keyed = pipeline.stream("in", value=str).partition_by(first_letter, id="by", key_type=str)
    keyed.window(tumbling(TEN), count(), id="w").map(told).send_to("out")
    return pipeline


def sessions_behind_a_border() -> Pipeline:
    pipeline = Pipeline("cu")
    keyed = pipeline.stream("in", value=str).partition_by(first_letter, id="by", key_type=str)
    keyed.window(session(TEN), collect(), id="w").map(told).send_to("out")
    return pipeline


def first_letter(text: str) -> str:
    return text[0]


async def later(text: str) -> list[str]:
    await asyncio.sleep(0.01)
    return [text]


def calls_in_front_of_a_border() -> Pipeline:
    pipeline = Pipeline("cu")
    called = pipeline.stream("in", value=str).async_flat_map(later, id="call")
    keyed = called.partition_by(first_letter, id="by", key_type=str, value=str)
    keyed.window(tumbling(TEN), count(), id="w").map(told).send_to("out")
    return pipeline


def unmatched(left: str, right: str | None) -> str:
    return f"{left}+{right}"


def outer_join() -> Pipeline:
    pipeline = Pipeline("cu")
    letters = pipeline.stream("in", value=str, key=str)
    small, large = letters.filter(is_lower), letters.filter(is_upper)
    small.join(large, unmatched, id="j", within=TEN, how="left").send_to("out")
    return pipeline


def is_lower(text: str) -> bool:
    return text.islower()


def is_upper(text: str) -> bool:
    return text.isupper()


def words(*messages: tuple[str, int]) -> list[Record]:
    return [(b"k", word.encode(), time, ()) for word, time in messages]


CASES = [
    Runs(
        "a-window-waits-for-its-end",
        windows,
        [
            OneRun([events(("a", 1), ("a", 2))], {}),
            OneRun([events(("b", 9))], {}),
            OneRun([events(("b", 10))], {"out": ["on_time a [0, 10) 2", "on_time b [0, 10) 1"]}),
            OneRun([[]], {}),
            OneRun([events(("a", 3))], {}),
            OneRun([[]], {"out": ["on_time b [10, 20) 1"]}, until="end"),
        ],
    ),
    Runs(
        "a-partition-without-messages-holds-time-back",
        windows_behind_a_border,
        [
            OneRun([words(("a1", 1), ("a2", 25)), []], {}),
            OneRun([[], words(("b1", 2))], {}),
            OneRun([[], words(("b2", 30))], {"out": ["on_time a [0, 10) 1", "on_time b [0, 10) 1"]}),
        ],
    ),
    Runs(
        "a-session-goes-on-in-the-next-run",
        sessions_behind_a_border,
        [
            OneRun([words(("a1", 0)), words(("b1", 2))], {}),
            OneRun([words(("a2", 9)), []], {}),
            OneRun([[], words(("a3", 17))], {}),
            OneRun([words(("c1", 20)), []], {"out": ["on_time b [2, 13) ['b1']"]}),
            OneRun([words(("c2", 60)), words(("c3", 28))], {"out": ["on_time a [0, 28) ['a1', 'a2', 'a3']"]}),
        ],
    ),
    Runs(
        "calls-land-before-the-run-returns",
        calls_in_front_of_a_border,
        [
            OneRun([words(("a1", 0), ("a2", 1)), words(("a3", 2))], {}),
            OneRun([words(("a4", 10)), words(("b1", 11))], {"out": ["on_time a [0, 10) 3"]}),
        ],
    ),
    Runs(
        "a-row-may-still-be-joined",
        outer_join,
        [
            OneRun([words(("a", 0))], {}),
            OneRun([words(("A", 10))], {"out": ["a+A"]}),
            OneRun([words(("b", 21))], {}),
            OneRun([words(("C", 40))], {"out": ["b+None"]}),
        ],
    ),
]


@contextmanager
def local_log(_: Any) -> Iterator[tuple[System, RunPipeline]]:
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        yield system, lambda pipeline, until: run(pipeline, system=system, until=until)


@contextmanager
def local_kafka(request: Any) -> Iterator[tuple[System, RunPipeline]]:
    system = namespace(request.getfixturevalue("broker"))
    with TemporaryDirectory() as folder:
        settings = replace(Settings(), state_dir=folder)
        yield system, lambda pipeline, until: run(pipeline, system=system, until=until, settings=settings)


@contextmanager
def spark_log(request: Any) -> Iterator[tuple[System, RunPipeline]]:
    spark = request.getfixturevalue("spark")
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        yield system, lambda pipeline, until: run(pipeline, engine="spark", system=system, until=until, spark=spark)


@contextmanager
def spark_kafka(request: Any) -> Iterator[tuple[System, RunPipeline]]:
    spark, space = request.getfixturevalue("spark"), namespace(request.getfixturevalue("broker"))
    with TemporaryDirectory() as folder:
        settings = replace(Settings(), state_dir=folder)

        def run_apart(pipeline: Pipeline, until: Until) -> None:
            made = apart(pipeline, space.prefix)
            run(made, engine="spark", system=space.system, until=until, settings=settings, spark=spark)

        yield space, run_apart


TARGETS = {"local-log": local_log, "local-kafka": local_kafka, "spark-log": spark_log, "spark-kafka": spark_kafka}


@pytest.mark.parametrize("target", [pytest.param(name, marks=CASE_TARGETS[name][1]) for name in TARGETS])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_run_writes_what_has_come_due(case: Runs, target: str, request: pytest.FixtureRequest) -> None:
    with TARGETS[target](request) as (system, run_pipeline):
        system.admin().create("in", len(case.runs[0].found))
        before: Counter[tuple[str, str]] = Counter()
        for number, one in enumerate(case.runs):
            for partition, records in enumerate(one.found):
                append(system, "in", partition, records)
            run_pipeline(case.pipeline(), one.until)
            now = values_of(system)
            expected = Counter((stream, value) for stream, values in one.written.items() for value in values)
            assert now - before == expected, f"run {number}"
            before = now


def values_of(system: System) -> Counter[tuple[str, str]]:
    outputs = outputs_of(system, {"in"}, "cu")
    return Counter((stream, text_of(one[1])) for stream, messages in outputs.items() for one in messages)


def text_of(value: bytes | None) -> str:
    assert value is not None
    return value.decode()
