"""DataFrames of Spark's as inputs and outputs of runs: streaming ones, and batch jobs over those that have an end."""

import gzip
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from engines.targets import contents, write
from examples import visitor_sessions
from explained import assert_explains, error_of
from fluvial.dsl import (
    MessageError,
    Pipeline,
    PipelineError,
    PlanError,
    SystemProblem,
    UnsupportedError,
    collect,
    count,
    dead_letter,
    tumbling,
)
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import DataFrameInput, DataFrameOutput, Progress, Report, run, start, to_dataframe
from fluvial.runtime.systems import KafkaSystem, LogSystem
from kafka.broker import Broker
from oracle.interpreter import run_oracle
from oracle.visits import DATA, in_order, sessions
from waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

MINUTE = timedelta(minutes=1)
START = 1_700_000_000_000
SMALL = Settings(spark_buckets=2)


@dataclass(frozen=True, slots=True)
class Click:
    """A click; `at` is in ms since epoch."""

    user: str
    at: int
    url: str = "/"


def user_of(click: Click) -> str:
    return click.user


def time_of(click: Click) -> int:
    return click.at


def busy(name: str = "busy") -> Pipeline:
    """The clicks of each user and minute, in their order."""
    pipeline = Pipeline(name)
    clicks = pipeline.stream("clicks", value=Click, timestamp=time_of)
    keyed = clicks.partition_by(user_of, id="by-user", key_type=str)
    keyed.window(tumbling(MINUTE), collect(), id="minutes").send_to("minutes")
    return pipeline


def clicks_of(numbers: Iterable[int]) -> list[Click]:
    return [Click(f"u{number % 7}", START + 997 * number) for number in numbers]


def frame_of(spark: "SparkSession", numbers: Iterable[int]) -> "DataFrame":
    """Clicks as rows, the last one first."""
    rows = [(click.user, click.at) for click in clicks_of(numbers)][::-1]
    return spark.createDataFrame(rows, "user string, at long").repartition(3)


def wanted(numbers: Iterable[int]) -> Counter[Any]:
    """The clicks of each user and minute, by the oracle."""
    records: list[Record] = [(None, msgspec.json.encode(click), 0, ()) for click in clicks_of(numbers)]
    panes = (
        msgspec.json.decode(message.value or b"") for message in run_oracle(busy(), {"clicks": [records]})["minutes"]
    )
    return Counter((pane["key"], pane["window"]["start"], tuple(one["at"] for one in pane["value"])) for pane in panes)


class Kept:
    """What an output was given, by batch."""

    def __init__(self) -> None:
        self.batches: dict[int, list[Any]] = {}

    def __call__(self, frame: "DataFrame", batch: int) -> None:
        self.batches[batch] = [row.asDict(recursive=True) for row in frame.collect()]

    @property
    def rows(self) -> list[Any]:
        return [row for rows in self.batches.values() for row in rows]

    @property
    def minutes(self) -> Counter[Any]:
        return Counter(
            (row["key"], row["window"]["start"], tuple(one["at"] for one in row["value"])) for row in self.rows
        )


def written_on(directory: Path, numbers: Iterable[int], spark: "SparkSession") -> None:
    """Add a file with clicks to a folder that a stream reads."""
    frame_of(spark, numbers).coalesce(1).write.mode("append").parquet(str(directory))


def stream_of(spark: "SparkSession", directory: Path) -> "DataFrame":
    return spark.readStream.schema("user string, at long").option("maxFilesPerTrigger", 1).parquet(str(directory))


def test_a_stream_of_files_goes_on_from_run_to_run_and_needs_no_system(
    spark: "SparkSession", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    kept, files = Kept(), tmp_path / "clicks"
    settings = Settings(spark_buckets=2, state_dir=f"file://{tmp_path}/state")

    def once(until: Any) -> Report:
        frames = {"clicks": stream_of(spark, files)}
        return run(busy(), engine="spark", inputs=frames, outputs={"minutes": kept}, until=until, settings=settings)

    written_on(files, range(150), spark)
    written_on(files, range(150, 300), spark)
    first = once("caught-up")
    assert first.read["clicks"] == 300
    assert set(kept.minutes) < set(wanted(range(300)))
    written_on(files, range(300, 400), spark)
    second = once("end")
    assert second.read["clicks"] == 100
    assert kept.minutes == wanted(range(400))
    assert not (tmp_path / ".fluvial").exists()


def test_a_batch_that_was_cut_off_comes_again_with_its_number_and_its_rows(
    spark: "SparkSession", tmp_path: Path
) -> None:
    files, seen = tmp_path / "clicks", []
    settings = Settings(spark_buckets=2, state_dir=str(tmp_path / "state"))
    written_on(files, range(200), spark)

    def fails_once(frame: "DataFrame", batch: int) -> None:
        rows = sorted(map(str, frame.collect()))
        seen.append((batch, rows))
        if rows and len(seen) == len({number for number, _ in seen}):
            raise RuntimeError("the table is locked")

    def once() -> Report:
        frames = {"clicks": stream_of(spark, files)}
        return run(
            busy(), engine="spark", inputs=frames, outputs={"minutes": fails_once}, until="end", settings=settings
        )

    raised = error_of(once, PipelineError)
    assert "the output 'minutes' has failed: RuntimeError: the table is locked" in str(raised)
    once()
    written = [one for one in seen if one[1]]
    assert written[0] == written[1]
    assert dict(written).keys() >= {written[0][0]}


def test_frames_go_with_streams_of_a_system_on_both_sides(spark: "SparkSession", tmp_path: Path) -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    others: list[Record] = [(None, msgspec.json.encode(click), 0, ()) for click in clicks_of(range(100, 200))]
    write(system, {"others": [others]})
    pipeline = Pipeline("both")
    clicks = pipeline.stream("clicks", value=Click, timestamp=time_of)
    merged = clicks.merge(pipeline.stream("others", value=Click, timestamp=time_of))
    counts = merged.partition_by(user_of, id="by-user", key_type=str).window(tumbling(MINUTE), count(), id="counts")
    counts.send_to("counts")
    counts.map(lambda pane: pane.value).send_to("numbers", value=int)
    # A part that nothing connects with the others is a query without a stream of the system.
    pipeline.stream("again", value=Click, timestamp=time_of).map(user_of).send_to("users")
    kept, users, told = Kept(), Kept(), list[Progress]()
    written_on(tmp_path / "clicks", range(100), spark)
    frames = {name: stream_of(spark, tmp_path / "clicks") for name in ("clicks", "again")}
    report = run(
        pipeline,
        engine="spark",
        system=system,
        inputs=frames,
        outputs={"numbers": kept, "users": users},
        until="end",
        settings=SMALL,
        progress=told.append,
    )
    assert (report.read["clicks"], report.read["others"]) == (100, 100)
    assert (told[-1].phase, report.read["again"], len(users.rows)) == ("done", 100, 100)
    panes = [msgspec.json.decode(record[1] or b"") for record in contents(system, "counts")]
    assert sum(pane["value"] for pane in panes) == 200
    assert sorted(row["value"] for row in kept.rows) == sorted(pane["value"] for pane in panes)
    assert "numbers" not in system.admin().streams()


def test_a_rate_of_rows_into_a_table_in_memory_and_sql_over_it(spark: "SparkSession", tmp_path: Path) -> None:
    pipeline = Pipeline("rate")
    numbers = pipeline.stream("numbers", value=int)
    numbers.map(even).send_to("even")
    rate = spark.readStream.format("rate").option("rowsPerSecond", 200).load()
    seen: list[int] = []

    def note(frame: "DataFrame", _: int) -> None:
        frame.createOrReplaceTempView("even")
        (counted,) = frame.sparkSession.sql("select count(*) from even where value").collect()
        seen.append(counted[0])

    settings = Settings(state_dir=str(tmp_path))
    with start(pipeline, engine="spark", inputs={"numbers": rate}, outputs={"even": note}, settings=settings) as handle:
        wait_until(lambda: sum(seen) > 100, "rows in several batches", seconds=60)
        wait_until(lambda: bool(handle.queries and handle.queries[0].recentProgress), "progress of the query")
        observed = handle.queries[0].recentProgress[-1].observedMetrics
    assert "messages_processed numbers" in observed["fluvial"].asDict()


def even(number: int) -> bool:
    return number % 2 == 0


@pytest.mark.kafka
def test_a_kafka_frame_of_the_user_s_has_encoded_messages_in_it(
    spark: "SparkSession", broker: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic(2)
    records: list[Record] = [(b"k", msgspec.json.encode(click), START, ()) for click in clicks_of(range(100))]
    write(KafkaSystem(broker.address), {name: [records[0::2], records[1::2]]})
    options = {"kafka.bootstrap.servers": broker.address, "subscribe": name, "startingOffsets": "earliest"}
    frame = spark.readStream.format("kafka").options(**options).load()
    kept, settings = Kept(), Settings(spark_buckets=2, state_dir=str(tmp_path))
    run(busy(), engine="spark", inputs={"clicks": frame}, outputs={"minutes": kept}, until="end", settings=settings)
    assert kept.minutes == wanted(range(100))


def test_a_batch_job_writes_what_the_oracle_does_whatever_the_order_of_its_rows(spark: "SparkSession") -> None:
    kept = Kept()
    frames = {"clicks": frame_of(spark, range(400))}
    report = run(busy(), engine="spark", inputs=frames, outputs={"minutes": kept}, settings=SMALL)
    assert kept.minutes == wanted(range(400))
    assert report.read == {"clicks": 400, "busy-by-user": 400}
    assert report.written["minutes"] == len(kept.rows)


def test_a_batch_job_warns_of_times_in_seconds(spark: "SparkSession") -> None:
    pipeline = Pipeline("seconds")
    clicks = pipeline.stream("clicks", value=Click, timestamp=lambda click: click.at // 1000)
    keyed = clicks.partition_by(user_of, id="by-user", key_type=str)
    keyed.window(tumbling(MINUTE), count(), id="minutes").send_to("minutes")
    report = run(
        pipeline,
        engine="spark",
        inputs={"clicks": frame_of(spark, range(9))},
        outputs={"minutes": Kept()},
        settings=SMALL,
    )
    assert [*report.warnings] == ["times of clicks"]


@pytest.mark.skipif(not DATA.exists(), reason=f"{DATA.name} is not beside the repository")
def test_the_real_log_as_a_batch_job_has_the_sessions_of_a_run(spark: "SparkSession") -> None:
    with gzip.open(DATA) as file:
        lines = file.read().decode().splitlines()
    frame, kept, letters = spark.read.text(str(DATA)), Kept(), Kept()
    outputs = {"sessions": kept, "visitor-sessions-dead-letters": letters}
    run(visitor_sessions.pipeline, engine="spark", inputs={"access-log": frame}, outputs=outputs, settings=SMALL)
    assert in_order(kept.rows) == in_order(sessions(lines))
    assert len(letters.rows) == 1


def test_rows_go_to_a_database_and_come_back(spark: "SparkSession", tmp_path: Path) -> None:
    url = f"jdbc:derby:{tmp_path}/rows;create=true"

    def to_table(frame: "DataFrame", _: int) -> None:
        flat = frame.selectExpr("key", "window.start", "size(value) AS clicks", "at")
        flat.write.jdbc(url, "minutes", mode="append")

    output = DataFrameOutput(to_table, timestamp="at")
    run(busy(), engine="spark", inputs={"clicks": frame_of(spark, range(200))}, outputs={"minutes": output})
    read = spark.read.jdbc(url, "minutes")
    found = Counter((row["key"], row["start"], row["clicks"]) for row in read.collect())
    assert found == Counter((key, begun, len(times)) for key, begun, times in wanted(range(200)))
    assert {row["at"] for row in read.collect()} == {
        datetime.fromtimestamp((begun + 59_999) / 1000, UTC).replace(tzinfo=None) for _, begun, _ in wanted(range(200))
    }


def test_a_stream_as_a_frame_goes_on_in_sql_in_the_user_s_session(spark: "SparkSession") -> None:
    minutes = to_dataframe(busy(), "minutes", inputs={"clicks": frame_of(spark, range(200))}, key="who", settings=SMALL)
    minutes.createOrReplaceTempView("minutes")
    (row,) = spark.sql("select sum(size(value)), count(distinct who) from minutes").collect()
    assert tuple(row) == (200, 7)


def test_a_streaming_frame_is_possible_before_any_shuffle_alone(spark: "SparkSession", tmp_path: Path) -> None:
    pipeline = busy()
    pipeline_clicks = Pipeline("urls")
    pipeline_clicks.stream("clicks", value=Click, timestamp=time_of).map(url_of).send_to("urls")
    written_on(tmp_path / "clicks", range(50), spark)
    frames = {"clicks": stream_of(spark, tmp_path / "clicks")}
    urls = to_dataframe(pipeline_clicks, "urls", inputs=frames)
    query = urls.writeStream.format("memory").queryName("urls").trigger(availableNow=True).start()
    query.awaitTermination()
    assert [row[0] for row in spark.table("urls").collect()] == ["/"] * 50
    raised = error_of(lambda: to_dataframe(pipeline, "minutes", inputs=frames), UnsupportedError)
    assert_explains(raised, "a streaming DataFrame of 'minutes', which comes from behind a shuffle", None, "no state")


def url_of(click: Click) -> str:
    return click.url


def test_a_message_that_fails_ends_the_job_before_anything_is_written(spark: "SparkSession") -> None:
    kept = Kept()
    frame = frame_of(spark, range(50)).selectExpr("if(at % 5 = 0, NULL, user) AS user", "at")
    raised = error_of(
        lambda: run(busy(), engine="spark", inputs={"clicks": frame}, outputs={"minutes": kept}), MessageError
    )
    assert "stream clicks failed on the message at clicks, partition 0" in str(raised)
    assert not kept.batches


def test_messages_that_fail_go_to_the_frame_of_dead_letters(spark: "SparkSession") -> None:
    pipeline = Pipeline("busy", on_error=dead_letter())
    pipeline.stream("clicks", value=Click, timestamp=time_of).map(url_of).send_to("urls")
    frame = spark.createDataFrame([("ann", 1), (None, 2)], "user string, at long")
    urls, letters = Kept(), Kept()
    run(pipeline, engine="spark", inputs={"clicks": frame}, outputs={"urls": urls, "busy-dead-letters": letters})
    assert [row["value"] for row in urls.rows] == ["/"]
    assert [msgspec.json.decode(row["value"]) for row in letters.rows] == [{"user": None, "at": 2}]


def slow(click: Click) -> str:
    time.sleep(1)
    return click.url


def test_a_job_that_is_stopped_between_two_jobs_of_spark_s_begins_no_other(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch
) -> None:
    from fluvial.runtime.spark.frames import batch_run, job_session  # noqa: PLC0415 - where pyspark is installed

    writing, cancelled, ran = threading.Event(), threading.Event(), list[int]()
    cancel = job_session.cancel_group

    def told(session: "SparkSession", name: str) -> None:
        cancel(session, name)
        cancelled.set()

    def write(frame: "DataFrame", _: int) -> None:
        writing.set()
        assert cancelled.wait(60)
        ran.append(frame.sparkSession.range(1).count())

    monkeypatch.setattr(batch_run, "cancel_group", told)
    pipeline = Pipeline("between")
    pipeline.stream("in", value=int).send_to("out")
    frame = spark.sql("SELECT 1L AS value, timestamp_millis(1) AS timestamp")
    handle = start(pipeline, engine="spark", inputs={"in": frame}, outputs={"out": write}, settings=SMALL)
    assert writing.wait(120)
    assert_explains(error_of(handle.stop, SystemProblem), "was stopped before it was done", None, "to its end", "again")
    assert ran == []


def test_a_job_that_is_stopped_ends_within_its_tasks_and_writes_nothing(spark: "SparkSession") -> None:
    pipeline = Pipeline("slow")
    pipeline.stream("clicks", value=Click, timestamp=time_of).map(slow).send_to("urls")
    kept, frame = Kept(), frame_of(spark, range(600))
    handle = start(pipeline, engine="spark", inputs={"clicks": frame}, outputs={"urls": kept})
    wait_until(lambda: handle.progress and handle.progress.batch_tasks, "tasks that run")
    began = time.monotonic()
    raised = error_of(handle.stop, SystemProblem)
    assert_explains(raised, "the batch job of 'slow' was stopped before it was done", None, "to its end", "again")
    assert time.monotonic() - began < 60  # of the 300 s that its tasks would take
    assert not kept.batches


def test_the_local_engine_has_no_frames(spark: "SparkSession") -> None:
    raised = error_of(lambda: run(busy(), inputs={"clicks": frame_of(spark, range(2))}), UnsupportedError)
    assert_explains(raised, "inputs= and outputs= with engine='local'", None, "the engine that has DataFrames", "spark")


def test_columns_that_do_not_fit_are_refused_before_anything_runs(spark: "SparkSession") -> None:
    frame = DataFrameInput(frame_of(spark, range(2)), columns={"user": "at"})
    raised = error_of(lambda: to_dataframe(busy(), "minutes", inputs={"clicks": frame}), PlanError)
    assert_explains(raised, "the column 'user' is of type bigint", None, "string", "cast")


def in_two_parts() -> Pipeline:
    """A pipeline of two parts that nothing connects, which write one stream."""
    pipeline = Pipeline("parts")
    for name in ("a", "b"):
        pipeline.stream(name, value=int).send_to("out")
    return pipeline


def numbers(spark: "SparkSession", first: int) -> "DataFrame":
    return spark.range(first, first + 2).selectExpr("id AS value", "1 AS timestamp")


def test_an_output_of_two_parts_is_written_at_once(spark: "SparkSession") -> None:
    kept, inputs = Kept(), {"a": numbers(spark, 0), "b": numbers(spark, 100)}
    calls: list[int] = []

    def note(frame: "DataFrame", batch: int) -> None:
        calls.append(batch)
        kept(frame, batch)

    run(in_two_parts(), engine="spark", inputs=inputs, outputs={"out": note})
    assert calls == [0]
    assert sorted(row["value"] for row in kept.rows) == [0, 1, 100, 101]
    assert to_dataframe(in_two_parts(), "out", inputs=inputs).count() == 4


def test_streaming_queries_do_not_share_an_output(spark: "SparkSession", tmp_path: Path) -> None:
    rate = spark.readStream.format("rate").load()
    settings = Settings(state_dir=str(tmp_path))
    raised = error_of(
        lambda: run(
            in_two_parts(), engine="spark", inputs={"a": rate, "b": rate}, outputs={"out": Kept()}, settings=settings
        ),
        UnsupportedError,
    )
    assert_explains(
        raised, "'out' is written by parts of the pipeline that nothing connects", None, "one query", "part"
    )


def test_a_write_is_in_the_user_s_session_with_its_views_and_its_database(spark: "SparkSession") -> None:
    theirs = spark.newSession()
    theirs.sql("CREATE DATABASE IF NOT EXISTS others")
    theirs.catalog.setCurrentDatabase("others")
    theirs.range(3).createOrReplaceTempView("known")
    theirs.udf.register("louder", lambda text: text.upper(), "string")
    frame = theirs.sql("SELECT 'ann' AS name, 5L AS at")
    seen: list[Any] = []

    def write_rows(rows: "DataFrame", _: int) -> None:
        rows.createOrReplaceTempView("found")
        seen.append(theirs.sql("SELECT url, (SELECT count(*) FROM known) FROM found").collect()[0])
        seen.append((rows.sparkSession.catalog.currentDatabase(), rows.sparkSession is theirs))

    pipeline = Pipeline("urls")
    pipeline.stream("clicks", value=Click, timestamp=time_of).map(to_location).send_to("locations")
    given = DataFrameInput(frame, columns={"user": "louder(name)"})
    run(pipeline, engine="spark", inputs={"clicks": given}, outputs={"locations": write_rows})
    assert [tuple(one) for one in seen] == [("ANN/", 3), ("others", True)]


@dataclass(frozen=True, slots=True)
class Location:
    """Where a user was."""

    url: str


def to_location(click: Click) -> Location:
    return Location(f"{click.user}{click.url}")


def test_so_it_is_where_outputs_alone_are_frames(spark: "SparkSession", tmp_path: Path) -> None:
    system = LogSystem(tmp_path, fsync=False)
    write(system, {"in": [[(None, b"5", 1, ())]]})
    pipeline, seen = Pipeline("numbers"), list[Any]()
    pipeline.stream("in", value=int).send_to("out")

    def note(rows: "DataFrame", _: int) -> None:
        seen.append((rows.sparkSession is spark, [row.value for row in rows.collect()]))

    run(pipeline, engine="spark", system=system, outputs={"out": note}, until="end", spark=spark)
    assert seen == [(True, [5])]


def test_the_error_of_a_write_names_its_line(spark: "SparkSession") -> None:
    def fails(frame: "DataFrame", batch: int) -> None:
        raise RuntimeError(f"batch {batch} of {frame.columns}")

    inputs = {"a": numbers(spark, 0), "b": numbers(spark, 100)}
    raised = error_of(lambda: run(in_two_parts(), engine="spark", inputs=inputs, outputs={"out": fails}), PipelineError)
    assert_explains(
        raised, "the output 'out' has failed: RuntimeError: batch 0", fails, "writes the rows", "correct it"
    )
