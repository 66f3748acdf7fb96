"""The verbs on a Kafka broker."""

import json
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from engines.command_line import Fluvial
from kafka.broker import Broker

STREAMS = ("words", "counts", "letters-by-letter", "letters-count-changelog", "letters-checkpoints")


@pytest.fixture
def url(broker: Broker) -> str:
    """A cluster without the streams of the pipeline."""
    broker.remove_topics(*STREAMS)
    return f"kafka://{broker.address}"


@pytest.mark.kafka
def test_lines_go_in_and_come_out(fluvial: Fluvial, url: str) -> None:
    ended = fluvial("produce", "words", "words.jsonl", "--system", url, "--partitions", "2")
    assert (ended.code, ended.out, ended.err) == (0, "words: 6 records in 2 partitions\n", "")
    ended = fluvial("consume", "words", "--system", url, "--values")
    assert ended.code == 0
    assert sorted(ended.out.splitlines()) == sorted(Path("words.jsonl").read_text().splitlines())
    assert len(fluvial("consume", "words", "--system", url, "--limit", "4").out.splitlines()) == 4


@pytest.mark.kafka
def test_a_pipeline_is_checked_and_run(fluvial: Fluvial, url: str) -> None:
    fluvial("produce", "words", "words.jsonl", "--system", url)
    ended = fluvial("check", "letters.py", "--system", url)
    assert (ended.code, ended.err) == (0, "")
    assert "source: words has 1 partition" in ended.out
    assert "the first record of words is a Word" in ended.out
    for guarantee, read in (("at_least_once", 6), ("exactly_once", 0)):
        words = ("run", "letters.py", "--system", url, "--until", "end", "--guarantee", guarantee, "--json")
        ended = fluvial(*words)
        assert (ended.code, ended.err) == (0, "")
        assert json.loads(ended.out)["read"].get("words", 0) == read
    values = map(json.loads, fluvial("consume", "counts", "--system", url, "--values").out.splitlines())
    assert sorted((value["letter"], value["words"]) for value in values) == [("a", 3), ("b", 1), ("c", 1)]


def make(broker: Broker, topic: str, **config: str) -> None:
    """A topic of the pipeline, with settings of the user's own."""
    settings = {name.replace("_", "."): value for name, value in config.items()}
    client = AdminClient({"bootstrap.servers": broker.address})
    client.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result()


@pytest.mark.kafka
def test_topics_that_are_not_kept_as_a_run_needs_it_are_named(fluvial: Fluvial, broker: Broker, url: str) -> None:
    fluvial("produce", "words", "words.jsonl", "--system", url)
    make(broker, "letters-count-changelog", cleanup_policy="delete")
    make(broker, "letters-checkpoints", cleanup_policy="compact,delete")
    make(broker, "letters-by-letter", retention_ms="1000")
    ended = fluvial("check", "letters.py", "--system", url)
    assert ended.code == 4
    where = "has cleanup.policy"
    assert f"✗ changelog: stream 'letters-count-changelog' {where}=delete: " in ended.out
    assert f"✗ checkpoints: stream 'letters-checkpoints' {where}=compact,delete: " in ended.out
    assert "✗ intermediate: stream 'letters-by-letter' has" in ended.out
    assert fluvial("run", "letters.py", "--system", url, "--until", "end").code == 4


@pytest.mark.kafka
def test_what_an_output_does_to_messages_is_named(fluvial: Fluvial, broker: Broker, url: str) -> None:
    fluvial("produce", "words", "words.jsonl", "--system", url)
    make(broker, "counts", cleanup_policy="compact", message_timestamp_after_max_ms="3600000")
    ended = fluvial("check", "letters.py", "--system", url)
    assert ended.code == 0
    assert "! output: counts is compacted (cleanup.policy=compact): of the messages of a key the last" in ended.out
    assert "  to do: nothing if each key is one row, of which the last counts; else kafka-configs.sh" in ended.out
    assert "✓ output: counts accepts timestamps up to 3600000 ms ahead" in ended.out
    broker.remove_topics("counts")
    make(broker, "counts", message_timestamp_type="LogAppendTime", max_message_bytes="20000")
    ended = fluvial("check", "letters.py", "--system", url)
    assert ended.code == 0
    assert "! output: counts replaces the time of each message by that of its writing" in ended.out
    assert "✓ output: counts takes records of up to 20000 bytes (max.message.bytes); a larger one is" in ended.out


@pytest.mark.kafka
def test_settings_of_the_client_come_from_a_file(fluvial: Fluvial, folder: Path, url: str) -> None:
    (folder / "client.properties").write_text("client.id=mine\ntopics.retention.ms=12345\n")
    words = ("--system", url, "--kafka-conf", "client.properties")
    assert fluvial("produce", "words", "words.jsonl", *words).code == 0
    assert len(fluvial("consume", "words", *words).out.splitlines()) == 6
    (folder / "client.properties").write_text("sasl.pasword=open sesame\n")
    ended = fluvial("consume", "words", *words)
    assert ended.code == 2
    assert 'No such configuration property: "sasl.pasword"' in ended.err
    assert "sesame" not in ended.out + ended.err


@pytest.mark.slow
def test_brokers_out_of_reach_are_reported(fluvial: Fluvial) -> None:
    ended = fluvial("check", "letters.py", "--system", "kafka://127.0.0.1:1")
    assert ended.code == 4
    assert "kafka://127.0.0.1:1 is out of reach" in ended.out
