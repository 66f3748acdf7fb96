"""Clients and pools in Spark's Python workers: open once in each, in one event loop that outlives batches."""

import asyncio
import os
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import contents, write
from explained import error_of
from fluvial.dsl import (
    KeyedProcessor,
    Message,
    NoProgressError,
    Pipeline,
    Resource,
    SystemProblem,
    ValueState,
    count,
    resource,
    tumbling,
)
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.spark.worker.worker_process import MOST_PIPELINES
from fluvial.runtime.systems import LogSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]
NUMBERS = range(60)


def log_with(folder: Path) -> LogSystem:
    system = LogSystem(folder / "log", fsync=False)
    records = [[(b"%d" % (number % 7), b"%d" % number, number, ()) for number in NUMBERS[part::2]] for part in (0, 1)]
    write(system, {"numbers": records})
    return system


SMALL_BATCHES = Settings(spark_buckets=2, spark_shuffle_partitions=2, spark_batch_records=20)


class Client:
    """Works in the loop alone in which it was opened, and writes down what happens to it."""

    def __init__(self, notes: Path) -> None:
        self._notes = notes

    def note(self, what: str) -> None:
        with self._notes.open("a") as file:
            file.write(f"{what} {os.getpid()}\n")

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.note("open")

    async def close(self) -> None:
        assert asyncio.get_running_loop() is self._loop
        self.note("close")

    async def twice(self, number: int) -> list[int]:
        assert asyncio.get_running_loop() is self._loop
        await asyncio.sleep(0)
        self.note("call")
        return [2 * number]


async def doubled(number: int, client: Client) -> list[int]:
    return await client.twice(number)


def clients(notes: Path) -> Resource[Client]:
    def make() -> Client:
        return Client(notes)

    return resource(make)


def noted(notes: Path, what: str) -> list[str]:
    """The processes that have noted something, each as often as it has."""
    return [line.split()[1] for line in notes.read_text().splitlines() if line.startswith(what)]


def both_levels(client: Resource[Client]) -> Pipeline:
    """Calls before a shuffle and behind it."""
    pipeline = Pipeline("p")
    numbers = pipeline.stream("numbers", value=int)
    numbers.async_flat_map(doubled, id="before", resource=client).send_to("doubled", value=int)
    keyed = numbers.partition_by(lambda number: f"{number % 3}", id="by", key_type=str)
    keyed.async_flat_map(doubled, id="behind", resource=client).send_to("again", value=int)
    panes = keyed.window(tumbling(timedelta(hours=1)), count(), id="count")
    panes.map(lambda pane: pane.value).async_flat_map(doubled, id="panes", resource=client).send_to("panes", value=int)
    return pipeline


def test_a_worker_opens_a_client_once_for_all_batches_levels_and_buckets(tmp_path: Path, spark: "SparkSession") -> None:
    system, notes = log_with(tmp_path), tmp_path / "notes"
    report = run(
        both_levels(clients(notes)), engine="spark", system=system, until="end", settings=SMALL_BATCHES, spark=spark
    )
    twice = sorted(b"%d" % (2 * number) for number in NUMBERS)
    assert sorted(value or b"" for _, value, _, _ in contents(system, "doubled")) == twice
    assert sorted(value or b"" for _, value, _, _ in contents(system, "again")) == twice
    assert len(contents(system, "panes")) == 3
    assert report.checkpoints >= 3  # so many batches
    openings, workers = noted(notes, "open"), set(noted(notes, "call"))
    assert sorted(openings) == sorted(workers)


@pytest.mark.long  # tests/runtime/spark/worker/test_worker_process.py tests this without Spark, in each run
def test_what_a_worker_has_open_is_closed_when_many_pipelines_come(tmp_path: Path, spark: "SparkSession") -> None:
    system, notes = log_with(tmp_path), tmp_path / "notes"
    for name in range(MOST_PIPELINES + 2):
        pipeline = Pipeline(f"{name}")
        numbers = pipeline.stream("numbers", value=int)
        numbers.async_flat_map(doubled, id="call", resource=clients(notes)).send_to(f"out-{name}", value=int)
        run(pipeline, engine="spark", system=system, until="end", settings=SMALL_BATCHES, spark=spark)
    assert set(noted(notes, "close")) <= set(noted(notes, "open"))
    assert noted(notes, "close")


class Kept:
    """A client that a function makes itself, when it is first called, and keeps."""

    loop: asyncio.AbstractEventLoop | None = None


async def by_hand(number: int) -> list[int]:
    loop = asyncio.get_running_loop()
    Kept.loop = Kept.loop or loop
    assert Kept.loop is loop
    return [number]


@pytest.mark.long  # as the one above
def test_what_a_function_keeps_in_its_process_has_one_loop_too(tmp_path: Path, spark: "SparkSession") -> None:
    system, pipeline = log_with(tmp_path), Pipeline("by-hand")
    pipeline.stream("numbers", value=int).async_flat_map(by_hand, id="call").send_to("out", value=int)
    run(pipeline, engine="spark", system=system, until="end", settings=SMALL_BATCHES, spark=spark)
    assert len(contents(system, "out")) == len(NUMBERS)


class Signed(KeyedProcessor[str, int, str]):
    """Has something open while it works."""

    seen = ValueState(int, default=0)

    def open(self) -> None:
        self.sign = "#"

    def close(self) -> None:
        del self.sign

    def on_message(self, message: Message[int], context: Any) -> Iterable[str]:  # noqa: ARG002
        self.seen.value += 1
        return [f"{self.sign}{self.seen.value}"]


class Written:
    """A sink whose service is asynchronous. A file beside that of its messages tells which processes have opened it."""

    def __init__(self, file: Path) -> None:
        self.file = file

    async def open(self) -> None:
        await asyncio.sleep(0)
        self._lines: list[str] = []
        with self.file.with_name("opened").open("a") as file:
            file.write(f"{os.getpid()}\n")

    def write(self, messages: Sequence[Message[str]]) -> None:
        self._lines.extend(message.value for message in messages)

    def flush(self) -> None:
        with self.file.open("a") as file:
            file.writelines(f"{line}\n" for line in self._lines)
        self._lines = []

    async def close(self) -> None:
        await asyncio.sleep(0)


def test_a_processor_and_a_sink_are_opened_in_the_worker(tmp_path: Path, spark: "SparkSession") -> None:
    system, file = log_with(tmp_path), tmp_path / "lines"
    pipeline = Pipeline("p")
    signed = pipeline.stream("numbers", key=str, value=int).process(Signed(), id="signed")
    signed.sink(Written(file), id="written")
    run(pipeline, engine="spark", system=system, until="end", settings=SMALL_BATCHES, spark=spark)
    assert sorted(file.read_text().split())[:3] == ["#1", "#1", "#1"]
    assert len(file.read_text().split()) == len(NUMBERS)
    opened = file.with_name("opened").read_text().split()
    assert len(opened) == len(set(opened))


async def refused() -> Client:
    raise ConnectionRefusedError("refused")


async def never() -> Client:
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize(("factory", "kind"), [(refused, SystemProblem), (never, NoProgressError)])
def test_a_client_that_does_not_open_is_reported_with_its_line(
    factory: Any, kind: Any, tmp_path: Path, spark: "SparkSession"
) -> None:
    system, client = log_with(tmp_path), resource(factory)
    pipeline = Pipeline("p")
    pipeline.stream("numbers", value=int).async_flat_map(doubled, id="call", resource=client).send_to("out", value=int)
    settings = Settings(stall_timeout=timedelta(seconds=1))
    error = error_of(
        lambda: run(pipeline, engine="spark", system=system, until="end", settings=settings, spark=spark), kind
    )
    assert f"resource({factory.__name__})" in str(error)
    assert f"test_resources.py:{client.origin.line}" in str(error)
