"""Topics that refuse times far ahead of the clock: messages are written with a time that is taken, and keep theirs."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer as Client
from confluent_kafka import TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fluvial.dsl import Pipeline, SystemProblem, after_count, count, repeat, tumbling
from fluvial.dsl.message import Record
from fluvial.planner.settings import Guarantee
from fluvial.runtime import KafkaSystem, Progress, Settings, run
from fluvial.runtime.systems.contract import Consumer
from fluvial.runtime.systems.kafka.records import TIME_HEADER
from fluvial.runtime.systems.kafka.topics import most_ahead
from kafka.broker import Broker

pytestmark = pytest.mark.kafka

MakeTopic = Callable[..., str]
Drain = Callable[[Consumer, int, int], tuple[list[int], list[Record]]]
HOUR, WEEK = 3_600_000, 7 * 24 * 3_600_000
LONGEST = str(2**63 - 1)

times = st.sampled_from([0, 1, 2**62]) | st.integers(-2 * HOUR, 2 * HOUR).map(lambda ms: int(time.time() * 1000) + ms)
names = st.sampled_from([TIME_HEADER, "kind"])
headers = st.lists(st.tuples(names, st.binary(max_size=5)), max_size=2).map(tuple)
records = st.lists(st.tuples(st.none() | st.just(b"k"), st.binary(max_size=5), times, headers), min_size=1, max_size=9)


def test_every_record_keeps_its_time(kafka: KafkaSystem, topic: MakeTopic, drain: Drain) -> None:
    name = topic(message_timestamp_after_max_ms=str(HOUR))
    sender, consumer = kafka.record_producer(), kafka.consumer()

    @settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
    @given(records)
    def check(records: list[Record]) -> None:
        start = sender.ends([(name, 0)])[name, 0]
        sender.send(name, 0, records)
        sender.flush()
        consumer.assign({(name, 0): start})
        assert drain(consumer, start, start + len(records))[1] == records

    check()
    sender.close()
    consumer.close()


def as_others_see(broker: Broker, name: str) -> tuple[int, list[object]]:
    """Time and headers of the first message of a topic."""
    client = Client({"bootstrap.servers": broker.address, "group.id": "other"})
    client.assign([TopicPartition(name, 0, 0)])
    message = client.poll(60.0)
    assert message is not None
    assert message.error() is None
    client.close()
    return message.timestamp()[1], [*(message.headers() or [])]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_pane_whose_time_lies_ahead_is_written(
    broker: Broker, kafka: KafkaSystem, topic: MakeTopic, drain: Drain, tmp_path: Path, guarantee: Guarantee
) -> None:
    name, output = f"panes-{uuid4().hex[:8]}", topic(message_timestamp_after_max_ms=str(HOUR))
    kafka.admin().create(f"{name}-in", 1)
    now = int(time.time() * 1000)
    writing = kafka.producer().begin()
    writing.append(f"{name}-in", 0, [(b"k", b"1", now, ())])
    writing.commit()
    pipeline = Pipeline(name)
    keyed = pipeline.stream(f"{name}-in", value=int, key=str)
    panes = keyed.window(tumbling(timedelta(weeks=520)), count(), id="n", trigger=repeat(after_count(1)))
    panes.map(lambda pane: pane.value).send_to(output)

    run(pipeline, system=kafka, until="end", settings=Settings(state_dir=str(tmp_path), guarantee=guarantee))

    consumer = kafka.consumer()
    consumer.assign({(output, 0): 0})
    ((_, _, timestamp, rest), *_) = drain(consumer, 0, kafka.admin().ends(output)[0])[1]
    consumer.close()
    assert (timestamp > now + WEEK, rest) == (True, ())
    written, pairs = as_others_see(broker, output)
    assert now < written < now + 2 * HOUR
    assert pairs == [(TIME_HEADER, b"%d" % timestamp)]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_limit_that_is_lowered_during_a_run_ends_it_and_the_next_run_goes_by_it(
    broker: Broker, kafka: KafkaSystem, topic: MakeTopic, drain: Drain, tmp_path: Path, guarantee: Guarantee
) -> None:
    name, output, ahead = f"lowered-{uuid4().hex[:8]}", topic(), int(time.time() * 1000) + WEEK
    kafka.admin().create(f"{name}-in", 1)
    broker.change(output, message_timestamp_after_max_ms=LONGEST)
    pipeline = Pipeline(name)
    pipeline.stream(f"{name}-in", value=int).send_to(output)
    settings = Settings(state_dir=str(tmp_path), guarantee=guarantee)

    def add(number: int) -> None:
        writing = kafka.producer().begin()
        writing.append(f"{name}-in", 0, [(None, b"%d" % number, ahead, ())])
        writing.commit()

    def act(progress: Progress) -> None:
        if progress.written == 1 and any(kafka.admin().ends(output)) and not lowered:
            lowered.append(True)
            broker.change(output, message_timestamp_after_max_ms=str(HOUR))
            add(2)

    lowered: list[bool] = []
    add(1)
    with pytest.raises(SystemProblem, match=r"INVALID_TIMESTAMP(?s:.)*start the pipeline again"):
        run(pipeline, system=kafka, settings=settings, progress=act)
    run(pipeline, system=kafka, settings=settings, until="end")
    consumer = kafka.consumer()
    consumer.assign({(output, 0): 0})
    found = drain(consumer, 0, kafka.admin().ends(output)[0])[1]
    consumer.close()
    assert {(value, timestamp) for _, value, timestamp, _ in found} == {(b"1", ahead), (b"2", ahead)}


@pytest.mark.parametrize(
    ("found", "ahead"),
    [
        ({"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": LONGEST}, None),
        ({"message.timestamp.type": "CreateTime", "message.timestamp.after.max.ms": "5"}, 5),
        ({"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "5"}, None),
        ({"message.timestamp.difference.max.ms": "7", "message.timestamp.after.max.ms": LONGEST}, 7),
        ({}, None),
    ],
)
def test_how_far_ahead_a_topic_takes_times(found: dict[str, str | None], ahead: int | None) -> None:
    assert most_ahead(found) == ahead
