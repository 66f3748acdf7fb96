"""A checkpoint whose key buckets are split, on Spark."""

import dataclasses
import shutil
from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import pytest
from msgspec.structs import replace

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import append, contents
from engines.targets import write as write_streams
from explained import assert_explains, error_of
from fluvial.dsl import (
    Context,
    KeyedProcessor,
    ListState,
    MapState,
    Message,
    Pipeline,
    SystemProblem,
    Timer,
    ValueState,
    after_count,
    count,
    repeat,
    tumbling,
    unbounded,
)
from fluvial.dsl.message import Record
from fluvial.planner import Settings, plan
from fluvial.runtime import run
from fluvial.runtime.launch import EngineName
from fluvial.runtime.spark.lowering.query_plan import BucketSplit
from fluvial.runtime.spark.query import query
from fluvial.runtime.spark.query.bucket_split import begin_split, split_source, split_times
from fluvial.runtime.spark.query.checkpoint_log import DONE, PLANNED
from fluvial.runtime.spark.query.checkpoint_record import QueryCheckpoint, wanted_record
from fluvial.runtime.spark.query.query_times import TimesRecord
from fluvial.runtime.systems import LogSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KEYS = 40


class Remembering(KeyedProcessor[str, int, str]):
    """Keeps a value, a list and a map, and reminds of each message once."""

    seen = ValueState(int, 0)
    times = ListState(int)
    by_name = MapState(str, int, ttl=timedelta(days=1))

    def on_message(self, message: Message[int], context: Context[str]) -> Iterable[str]:
        self.seen.value += 1
        self.times.append(message.timestamp)
        self.by_name[f"n{message.timestamp}"] = self.seen.value
        context.timers.set(f"t{message.timestamp}", message.timestamp + 1000)
        yield f"{message.key} seen {self.seen.value} {[*self.times]} {dict(self.by_name)}"

    def on_timer(self, timer: Timer, context: Context[str]) -> Iterable[str]:
        yield f"{context.key} timer {timer.time} of {self.seen.value}"


def keeping() -> Pipeline:
    """Windows, counts behind a second shuffle, what comes once, and a processor."""
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", key=str, value=int)
    windows = numbers.window(tumbling(timedelta(milliseconds=100)), count(), id="w")
    windows.map(lambda pane: f"{pane.key} {pane.window.start} {pane.value}").send_to("windows")
    firsts = numbers.deduplicate(within=timedelta(hours=1), id="d")
    firsts.map(lambda number: f"{number}").send_to("firsts")
    groups = numbers.partition_by(lambda number: f"g{number % 7}", id="by-rest", key_type=str)
    counted = groups.window(unbounded(), count(), id="u", trigger=repeat(after_count(1)))
    counted.map(lambda pane: f"{pane.key} {pane.value}").send_to("out")
    numbers.process(Remembering(), id="r").send_to("remembered")
    return pipeline


def records(at: int) -> list[Record]:
    return [(f"k{number}".encode(), f"{number}".encode(), at + number, ()) for number in range(KEYS)]


OUT = ("windows", "firsts", "out", "remembered")


class Runs:
    """Runs of `keeping` on a log of their own."""

    def __init__(self, folder: Path, spark: "SparkSession | None") -> None:
        self.folder, self.system, self.spark = folder, LogSystem(folder, fsync=False), spark

    def once(self, buckets: int | None, at: int | None, until: Literal["caught-up", "end"] = "caught-up") -> None:
        if at == 0:
            write_streams(self.system, {"in": [records(0)]})
        elif at is not None:
            append(self.system, "in", 0, records(at))
        settings = Settings(spark_buckets=buckets)
        engine: EngineName = "local" if self.spark is None else "spark"
        run(keeping(), engine=engine, system=self.system, until=until, settings=settings, spark=self.spark)

    def written(self) -> dict[str, list[str]]:
        return {name: sorted((value or b"").decode() for _, value, _, _ in contents(self.system, name)) for name in OUT}

    @property
    def queries(self) -> list[Path]:
        return [file.parent for file in (self.folder / "spark" / "p").glob("*/*/query")]

    def buckets(self) -> list[int]:
        records = (folder.joinpath("query").read_bytes() for folder in self.queries)
        return sorted(msgspec.json.decode(record)["buckets"] for record in records)


def unsplit(tmp_path: Path, ats: Iterable[int]) -> dict[str, list[str]]:
    """What the local engine writes in such runs."""
    one = Runs(tmp_path / "one", None)
    for at in ats:
        one.once(None, at)
    one.once(None, None, "end")
    return one.written()


def test_each_new_bucket_is_due_when_the_old_one_was_and_no_batch_was_begun() -> None:
    record = TimesRecord(batch=7, buckets={1: {0: (5, 6), 1: (7, 8)}})
    split = split_times(record, 2, 4)
    assert split.buckets == {1: {0: (5, 6), 2: (5, 6), 1: (7, 8), 3: (7, 8)}}
    assert split.batch == -1


def test_a_checkpoint_without_times_goes_on_as_it_is_and_says_what_is_missing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for log in (PLANNED, DONE):
        (tmp_path / "spark" / log).mkdir(parents=True)
        (tmp_path / "spark" / log / "0").touch()
    planned = plan(keeping())
    checkpoint = QueryCheckpoint(tmp_path, wanted_record(planned, list(planned.stages), Settings(spark_buckets=2)))
    connection: Any = None  # it is not asked
    assert begin_split(planned, checkpoint, 8, connection) is checkpoint
    assert f"{tmp_path / 'times'} does not exist" in caplog.text
    assert "p goes on with 2 key buckets, and its next batch writes the file; then start a run with 8" in caplog.text
    assert "cut off" not in caplog.text


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_all_that_is_kept_goes_on_in_more_buckets_also_after_a_kill(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = Runs(tmp_path / "split", spark)
    with monkeypatch.context() as patch:  # as an earlier version did, which labelled buckets by their numbers
        patch.setattr(query, "wanted_record", lambda *given: replace(wanted_record(*given), balanced=False))
        runs.once(2, 0)
    (before,) = runs.queries
    runs.once(8, 150)
    assert runs.buckets() == [2, 8]
    # Killed behind what the first batch of the new checkpoint has written, and before Spark noted that.
    (after,) = [folder for folder in runs.queries if folder != before]
    shutil.rmtree(after / "spark" / DONE)
    runs.once(None, None)
    assert before in runs.queries, "the state of the old checkpoint is needed until the batch is done"
    runs.once(8, 300, "end")
    assert runs.buckets() == [8], "the old checkpoint stayed"
    assert runs.written() == unsplit(tmp_path, (0, 150, 300))


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_cannot_be_split_is_found_before_a_batch_is_planned(
    tmp_path: Path, spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then the run without the setting goes on with the old checkpoint. Behind the first batch it goes on with the new
    one, and the error does not say otherwise."""
    runs = Runs(tmp_path / "split", spark)
    runs.once(2, 0)
    with monkeypatch.context() as patch:  # state of no known operator tells no key
        patch.setattr(query, "split_source", unknown)
        error = error_of(lambda: runs.once(8, 150), SystemProblem)
        assert_explains(error, "does not tell the key", None, "keys of this bucket", "leave out spark_buckets")
        runs.once(None, None)
        assert runs.buckets() == [2]
        patch.setattr(query, "check_split", lambda *_: None)
        error = error_of(lambda: runs.once(8, 300), SystemProblem)
        assert_explains(error, "does not tell the key", None, "keys of this bucket", "restore the checkpoint")
    runs.once(None, None, "end")
    assert runs.buckets() == [2, 8]
    assert runs.written() == unsplit(tmp_path, (0, 150, 300))


def unknown(*given: Any) -> BucketSplit | None:
    split = split_source(*given)
    return None if split is None else dataclasses.replace(split, states={})
