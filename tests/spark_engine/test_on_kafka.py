"""The Spark engine on a real Kafka broker."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from waiting import wait_until

pytest.importorskip("pyspark", reason="the engine needs pyspark")
import pyspark
from confluent_kafka.admin import AdminClient

from engines import visits_on_spark
from engines.apart import on_spark_kafka
from engines.comparing import assert_same
from engines.targets import contents, write
from engines.visits_on_spark import small, visits
from explained import assert_explains
from fluvial.dsl import Message, MessageError, Pane, Pipeline, SystemProblem, collect, count, dead_letter, tumbling
from fluvial.dsl.message import Record
from fluvial.planner import Settings
from fluvial.runtime import Progress, run, start
from fluvial.runtime.preflight import input_streams
from fluvial.runtime.spark.connectors.kafka import KafkaConnection
from fluvial.runtime.spark.query.session import session_for
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.log.claim import claim
from fluvial.runtime.systems.partitioner import partition_for
from fluvial.runtime.systems.reads import read_to_ends
from kafka.broker import Broker
from oracle.interpreter import OutputMessage, run_oracle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.kafka, pytest.mark.timeout(400)]


@pytest.fixture
def kafka(broker: Broker) -> KafkaSystem:
    return KafkaSystem(broker.address)


@pytest.fixture
def name() -> str:
    """A name that no other test's pipeline has."""
    return f"p{uuid4().hex[:8]}"


def by_partition(system: KafkaSystem, stream: str) -> list[list[Record]]:
    """All that is in a stream."""
    ends = system.admin().ends(stream)
    found: list[list[Record]] = [[] for _ in ends]
    for batch in read_to_ends(system, stream, [0] * len(ends), ends):
        found[batch.partition] += batch.records
    return found


LINES = [f"{'abcdefg'[number % 7]} {number}" for number in range(0, 900, 2)]


def dealt(lines: Sequence[str] = LINES) -> list[list[Record]]:
    """Lines for two partitions."""
    found: list[Record] = [(None, line.encode(), 1, ()) for line in lines]
    return [found[0::2], found[1::2]]


def expected(name: str, lines: Sequence[str] = LINES) -> Counter[OutputMessage]:
    return Counter(run_oracle(visits(name), {f"{name}.lines": dealt(lines)})[f"{name}.out"])


def written(system: KafkaSystem, name: str) -> Counter[OutputMessage]:
    return Counter(OutputMessage(*record) for record in contents(system, f"{name}.out"))


def odd(message: Message[str]) -> Message[str]:
    if message.value == "fail":
        raise ValueError("as told")
    return Message(message.key, message.value.upper(), message.timestamp, message.headers)


def mixed() -> Pipeline:
    """Two sources of several partitions, two levels, late and dead letters, and messages of every kind."""
    pipeline = Pipeline("mixed", on_error=dead_letter())
    words = pipeline.stream("words", value=str)
    words.map_messages(odd).send_to("same")
    others = pipeline.stream("others", value=str)
    keyed = words.merge(others).partition_by(lambda word: word[:1], id="letter", key_type=str, value=str)
    windows = keyed.window(tumbling(timedelta(seconds=1)), count(), id="count", late_to="late")
    windows.map(lambda pane: None if pane.value == 1 else pane.value).send_to("counts", key=lambda _: "all")
    return pipeline


MIXED: Mapping[str, list[list[Record]]] = {
    "words": [
        [
            (None, b"a", 0, ()),
            (b"k", b"b", 0, (("h", b"1"), ("h", b""), ("i", bytes(range(256))))),
            (b"", b"fail", 7, (("why", b"asked"),)),
            (b"x", b"a", 1500, (("fluvial.time", b"user's own"),)),
        ],
        [(b"\xff", b"c", 900, ()), (None, b"a", 1700, ())],
        [],
    ],
    "others": [[(None, b"a", 3, ()), (None, b"d", 253_402_300_000_000, ())]],
}


def test_messages_of_every_kind_come_through_as_the_oracle_says(broker: Broker, spark: "SparkSession") -> None:
    assert_same(on_spark_kafka(broker, spark, mixed(), MIXED), run_oracle(mixed(), MIXED))


def with_late() -> Pipeline:
    pipeline = Pipeline("late")
    keyed = pipeline.stream("words", value=str, key=str)
    keyed.window(tumbling(timedelta(seconds=1)), count(), id="count", late_to="late").send_to("counts")
    return pipeline


def test_what_comes_behind_the_watermark_is_late(broker: Broker, spark: "SparkSession") -> None:
    records: list[Record] = [(b"k", b"a", 0, ()), (b"k", b"a", 2000, ()), (b"k", b"a", 100, (("h", b"late"),))]
    inputs = {"words": [records]}
    one_a_batch = Settings(spark_batch_records=1, spark_buckets=1)
    found = on_spark_kafka(broker, spark, with_late(), inputs, one_a_batch)
    assert_same(found, run_oracle(with_late(), inputs))
    assert len(found["late"]) == 1


def test_a_time_that_a_topic_refuses_is_kept(
    broker: Broker, kafka: KafkaSystem, spark: "SparkSession", name: str, tmp_path: Path
) -> None:
    topic, ahead = broker.make_topic(message_timestamp_after_max_ms="3600000"), int(time.time() * 1000) + 7_200_000
    write(kafka, {f"{name}.in": [[(b"k", b"1", ahead, ())]]})
    pipeline = Pipeline(name)
    pipeline.stream(f"{name}.in", value=int, key=str).map(str).send_to(topic, value=str)
    run(pipeline, engine="spark", system=kafka, until="end", settings=small(tmp_path), spark=spark)
    assert by_partition(kafka, topic) == [[(b"k", b"1", ahead, ())]]


def with_rate(order: str, rate: int | None) -> str:
    return f"{order} at {rate}"


def rated() -> Pipeline:
    pipeline = Pipeline("rated")
    rates = pipeline.table("rates", key=str, value=int)
    orders = pipeline.stream("orders", value=str).partition_by(lambda order: order[0], id="by-letter", key_type=str)
    orders.join(rates, with_rate, id="rated", how="left").send_to("rated", value=str)
    return pipeline


def test_a_table_is_whole_before_the_first_message(broker: Broker, spark: "SparkSession") -> None:
    rates: list[list[Record]] = [[], []]
    for number in range(60):
        key = b"ab"[number % 2 :][:1]
        rates[partition_for(key, 2)].append((key, b"%d" % number, 0, ()))
    orders: list[list[Record]] = [[(None, b"a%d" % at, 1, ()) for at in range(7)], [(None, b"b", 1, ())]]
    inputs = {"rates": rates, "orders": orders}
    one_a_batch = Settings(spark_batch_records=1, spark_buckets=2)
    found = on_spark_kafka(broker, spark, rated(), inputs, one_a_batch)
    assert_same(found, run_oracle(rated(), inputs))
    assert {message.value for message in found["rated"]} == {*(b"a%d at 58" % at for at in range(7)), b"b at 59"}


def test_a_later_run_takes_in_what_came_to_a_table_first(
    kafka: KafkaSystem, spark: "SparkSession", name: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(name)
    rates = pipeline.table(f"{name}.rates", key=str, value=int)
    orders = pipeline.stream(f"{name}.orders", key=str, value=str)
    orders.join(rates, with_rate, id="rated").send_to(f"{name}.out", value=str)
    settings = small(tmp_path)
    for rate in (b"1", b"2"):
        write(kafka, {f"{name}.rates": [[(b"a", rate, 0, ())]], f"{name}.orders": [[(b"a", b"o" + rate, 1, ())]]})
        run(pipeline, engine="spark", system=kafka, until="end", settings=settings, spark=spark)
    assert [message.value for message in written(kafka, name).elements()] == [b"o1 at 1", b"o2 at 2"]


def test_keys_lie_where_other_clients_put_them_and_aborted_messages_nowhere(
    kafka: KafkaSystem, spark: "SparkSession", name: str, tmp_path: Path
) -> None:
    inputs: list[list[Record]] = [
        [(b"%d" % number, None if number % 3 else b"", 1, ()) for number in range(40)],
        [(None, b"%d" % number, 1, ()) for number in range(10)],
        [],
    ]
    write(kafka, {f"{name}.in": inputs})
    sender = kafka.record_producer(name)
    sender.begin()
    sender.send(f"{name}.in", 2, [(b"dropped", b"", 1, ())])
    sender.flush()
    kafka.record_producer(name).close()  # which takes the id, and aborts what was sent under it
    pipeline = Pipeline(name)
    pipeline.stream(f"{name}.in", value=bytes).send_to(f"{name}.out")

    report = run(pipeline, engine="spark", system=kafka, until="end", settings=small(tmp_path), spark=spark)

    assert report.read == {f"{name}.in": 50}
    keyed: list[list[Record]] = [[], [], []]
    for record in inputs[0]:
        keyed[partition_for(record[0], 3)].append(record)
    found = by_partition(kafka, f"{name}.out")
    assert [[record for record in part if record[0] is not None] for part in found] == keyed
    assert [[record for record in part if record[0] is None] for part in found] == [[], inputs[1], []]


def test_a_run_stopped_between_batches_is_gone_on_with(
    kafka: KafkaSystem, spark: "SparkSession", name: str, tmp_path: Path
) -> None:
    lines = LINES[:320]
    write(kafka, {f"{name}.lines": dealt(lines[:200])})
    told: list[Progress] = []

    def stop_soon(progress: Progress) -> None:
        told.append(progress)
        if progress.read and progress.phase == "running":
            os.kill(os.getpid(), signal.SIGTERM)

    settings = small(tmp_path, 100)
    first = run(visits(name), engine="spark", system=kafka, settings=settings, progress=stop_soon, spark=spark)
    # However far that came, there is more than a batch to read now.
    write(kafka, {f"{name}.lines": dealt(lines[200:])})
    handle = start(visits(name), engine="spark", system=kafka, settings=settings, until="end", spark=spark)
    second = handle.wait()
    assert second is not None
    (query,) = handle.queries
    lags = [one.observedMetrics["fluvial"][f"lag_messages {name}.lines"] for one in query.recentProgress]
    assert lags[0] > lags[-1] == 0

    assert written(kafka, name).keys() == expected(name, lines).keys()
    assert first.read[f"{name}.lines"] + second.read.get(f"{name}.lines", 0) == len(lines)
    assert f"{name}-by-name" not in kafka.admin().streams()
    last = told[-1]
    assert last.watermark is not None
    assert 0 < last.watermark < 900
    assert last.lag is not None
    assert last.in_flight <= last.lag <= len(lines) + 2

    append = kafka.record_producer()
    append.send(f"{name}.lines", 0, [(None, b"a 5000", 1, ())])
    append.flush()
    append.close()
    third = run(visits(name), engine="spark", system=kafka, settings=settings, until="end", spark=spark)
    assert third.read[f"{name}.lines"] == 1
    assert len(written(kafka, name)) == len(expected(name, lines)) + 1

    with pytest.raises(SystemProblem) as raised, claim(tmp_path, name, "0"):
        run(visits(name), engine="spark", system=kafka, settings=settings, until="end", spark=spark)
    assert_explains(raised.value, f"{name!r} (container 0) is running on {kafka.url}", None, "one run of a pipeline")


def test_a_function_that_raises_stops_the_run_and_names_the_message(
    kafka: KafkaSystem, spark: "SparkSession", name: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(name)
    pipeline.stream(f"{name}.in", value=str).map(int).send_to(f"{name}.out")
    write(kafka, {f"{name}.in": [[(None, b"1", 1, ()), (None, b"no number", 1, ())]]})
    with pytest.raises(MessageError, match=rf"failed on the message at {name}\.in, partition 0, offset 1, key none"):
        run(pipeline, engine="spark", system=kafka, until="end", settings=small(tmp_path), spark=spark)
    assert contents(kafka, f"{name}.out") == []


def test_messages_that_are_gone_stop_the_run(
    kafka: KafkaSystem, spark: "SparkSession", name: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(name)
    pipeline.stream(f"{name}.in", value=str).send_to(f"{name}.out")
    write(kafka, {f"{name}.in": [[(None, b"1", 1, ())]]})
    run(pipeline, engine="spark", system=kafka, until="end", settings=small(tmp_path), spark=spark)
    sender = kafka.record_producer()
    sender.send(f"{name}.in", 0, [(None, b"2", 1, ())] * 9)
    sender.flush()
    sender.trim({(f"{name}.in", 0): 5})
    sender.close()
    wait_until(lambda: kafka.admin().starts(f"{name}.in") == [5], "five records are gone")
    with pytest.raises(SystemProblem) as raised:
        run(pipeline, engine="spark", system=kafka, until="end", settings=small(tmp_path), spark=spark)
    assert_explains(
        raised.value, "messages are gone that were still to be read", None, "topics that keep", "start over"
    )


def test_without_the_connector_nothing_starts_and_the_error_names_it(
    kafka: KafkaSystem, name: str, tmp_path: Path
) -> None:
    write(kafka, {f"{name}.lines": dealt()})
    command = [sys.executable, visits_on_spark.__file__, name, kafka.settings.servers, str(tmp_path), "at_least_once"]
    told = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": "pyspark-shell"}
    ended = subprocess.run(command, env=told, capture_output=True, text=True, check=False)
    assert "MissingExtraError: Spark has not loaded its connector to Kafka" in ended.stderr
    wanted = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    assert f"pass --spark-conf spark.jars.packages={wanted}" in ended.stderr
    assert kafka.admin().partitions(f"{name}.out") is None


def test_spark_shows_no_secret(spark: "SparkSession") -> None:
    access = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "ann",
        "sasl.password": "hush",
    }
    connection = KafkaConnection(KafkaSystem("127.0.0.1:1", conf=access))
    with session_for(spark) as session:
        reader: Any = connection._reader(session, {"in": [0]}).load()
        shown = reader._jdf.queryExecution().toString()
    assert "kafka.sasl.jaas.config" in shown
    assert "hush" not in shown


def test_a_topic_that_was_made_anew_is_not_gone_on_with(
    kafka: KafkaSystem, broker: Broker, spark: "SparkSession", name: str, tmp_path: Path
) -> None:
    pipeline = Pipeline(name)
    pipeline.stream(f"{name}.in", value=str).send_to(f"{name}.out")
    for _ in range(2):
        write(kafka, {f"{name}.in": [[(None, b"1", 1, ())]]})
        if kafka.admin().partitions(f"{name}.out") is None:
            run(pipeline, engine="spark", system=kafka, until="end", settings=small(tmp_path), spark=spark)
            client = AdminClient({"bootstrap.servers": broker.address})
            client.delete_topics([f"{name}.in"])[f"{name}.in"].result()
    with pytest.raises(SystemProblem) as raised:
        run(pipeline, engine="spark", system=kafka, until="end", settings=small(tmp_path), spark=spark)
    wrong = f"the stream '{name}.in' of {kafka.url} is not the one that {name!r} has read"
    assert_explains(raised.value, wrong, None, "the same topic as in the run before", f"remove {tmp_path}")


def test_a_topic_that_is_made_anew_while_it_is_read_ends_the_run(
    kafka: KafkaSystem,
    broker: Broker,
    spark: "SparkSession",
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records: list[list[Record]] = [[(None, b"1", 1, ()), (None, b"2", 1, ())]]
    made = False

    def act(progress: Progress) -> None:
        nonlocal made
        if progress.read == 2 and not made:
            made = True
            broker.remove_topics(f"{name}.in")
            write(kafka, {f"{name}.in": records})

    monkeypatch.setattr(input_streams, "CHECK_SECONDS", 0.1)
    write(kafka, {f"{name}.in": records})
    pipeline = Pipeline(name)
    pipeline.stream(f"{name}.in", value=str).send_to(f"{name}.out")
    with pytest.raises(SystemProblem, match="was deleted and created again") as raised:
        run(pipeline, engine="spark", system=kafka, settings=small(tmp_path), spark=spark, progress=act)
    assert "--engine spark --system kafka:" in str(raised.value)
    assert str(raised.value).endswith(" --all")


def test_a_record_that_its_topic_does_not_take_fails_its_message_alone(
    broker: Broker, kafka: KafkaSystem, spark: "SparkSession", name: str, tmp_path: Path
) -> None:
    output, panes = (broker.make_topic(max_message_bytes="20000") for _ in range(2))
    lines = [f"{size} {number}" for number, size in enumerate([19_000, 21_000, *[300] * 200])]
    write(kafka, {f"{name}.in": [[(b"k", line.encode(), 1, ()) for line in lines]]})
    pipeline = Pipeline(name, on_error=dead_letter())
    texts = pipeline.stream(f"{name}.in", value=str, key=str).map(grown)
    texts.send_to(output)
    texts.window(tumbling(timedelta(seconds=1)), collect(), id="all").map(joined_text).send_to(panes)
    report = run(pipeline, engine="spark", system=kafka, until="end", settings=small(tmp_path), spark=spark)
    assert len(contents(kafka, output)) == 201
    assert contents(kafka, panes) == []
    assert sum(report.failed.values()) == 2
    errors = [dict(headers)["fluvial-error"] for _, _, _, headers in contents(kafka, f"{name}-dead-letters")]
    assert sorted(error.split(b" ")[5] for error in errors) == sorted([output.encode(), panes.encode()])


def grown(line: str) -> str:
    return "x" * int(line.partition(" ")[0])


def joined_text(pane: Pane[str, list[str]]) -> str:
    return "".join(pane.value)
