"""Messages as long as other programs write them: to topics with Kafka's defaults, and compressed."""

from pathlib import Path

import pytest
from confluent_kafka import Producer

from fluvial.dsl import Pipeline, dead_letter
from fluvial.planner import Settings
from fluvial.runtime import KafkaSystem, run
from kafka.broker import Broker

pytestmark = pytest.mark.kafka

LONGEST = 1_048_400
"""Bytes of a value that fits into a topic with the default of `max.message.bytes`, and no header besides."""


def first(text: list[int] | str | None) -> str:
    return str(text)[:1]


@pytest.mark.parametrize(("size", "compression"), [(LONGEST, "none"), (5_000_000, "zstd")])
def test_what_an_input_holds_an_output_and_a_dead_letter_can_hold(
    broker: Broker, tmp_path: Path, size: int, compression: str
) -> None:
    source = broker.make_topic()
    conf = {"bootstrap.servers": broker.address, "message.max.bytes": 2 * size, "compression.type": compression}
    producer = Producer(conf)
    for value in (b'"' + b"x" * (size - 2) + b'"', b"{" + b"x" * (size - 1), b'"last"'):
        producer.produce(source, value, timestamp=1)
    producer.flush()
    del producer  # else it would look for the broker after the tests

    pipeline = Pipeline(f"{source}-long", on_error=dead_letter())
    messages = pipeline.stream(source, value=list[int] | str | None)
    messages.send_to(f"{source}-out")
    messages.partition_by(first, id="by", value=list[int] | str | None).send_to(f"{source}-behind")
    settings = Settings(state_dir=str(tmp_path))
    report = run(pipeline, system=KafkaSystem(broker.address), until="end", settings=settings)
    assert report.written[f"{source}-out"] == report.written[f"{source}-behind"] == 2
    assert report.written[f"{source}-long-dead-letters"] == 1
