"""A session that grows large: what it writes to its changelog, and what is restored from there."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from fluvial.dsl import Pipeline, collect, session
from fluvial.planner import Guarantee, Settings
from fluvial.planner.stream_names import changelog
from fluvial.runtime import KafkaSystem, run
from fluvial.runtime.kernel.chunked_values import CHUNK
from kafka.broker import Broker

pytestmark = pytest.mark.kafka

MESSAGES, SIZE = 20_000, 200
"""4 MB of one key, and as many messages of other keys besides."""


def sessions(source: str) -> Pipeline:
    pipeline = Pipeline(f"{source}-sessions")
    keyed = pipeline.stream(source, value=str, key=str)
    panes = keyed.window(session(timedelta(minutes=30)), collect(), id="all")
    panes.map(lambda pane: len("".join(pane.value))).send_to(f"{source}-out")
    return pipeline


def messages(start: int, end: int) -> list[tuple[bytes, bytes, int, tuple[()]]]:
    numbered = ((number, b"%0*d" % (SIZE, number)) for number in range(start, end))
    return [(key, value, 10**12 + number, ()) for number, value in numbered for key in (b"robot", b"user %d" % number)]


@pytest.mark.parametrize("guarantee", [pytest.param("at_least_once", marks=pytest.mark.long), "exactly_once"])
def test_a_session_that_grows_writes_little_and_is_restored(
    broker: Broker, tmp_path: Path, guarantee: Guarantee
) -> None:
    source, system = broker.make_topic(), KafkaSystem(broker.address)
    settings = Settings(state_dir=str(tmp_path), guarantee=guarantee, commit_interval=timedelta(milliseconds=50))
    producer = system.producer()
    for start in range(0, MESSAGES, MESSAGES // 10):
        transaction = producer.begin()
        transaction.append(source, 0, messages(start, start + MESSAGES // 10))
        transaction.commit()
        report = run(sessions(source), system=system, until="caught-up", settings=settings)
        assert report.checkpoints > 0
        shutil.rmtree(tmp_path / f"{source}-sessions")  # the next run restores it
    producer.close()

    sizes = [
        len(value or b"") for key, value in records(system, changelog(f"{source}-sessions", "all")) if b"robot" in key
    ]
    assert max(sizes) <= CHUNK
    assert MESSAGES * SIZE < sum(sizes) < 3 * MESSAGES * SIZE

    run(sessions(source), system=system, until="end", settings=settings)
    written = [int(value or b"") for _, value in records(system, f"{source}-out")]
    assert sorted(written) == [SIZE] * MESSAGES + [SIZE * MESSAGES]


def records(system: KafkaSystem, stream: str) -> list[tuple[bytes, bytes | None]]:
    """The keys and values of all that is in a stream of one partition."""
    consumer, (end,) = system.consumer(), system.admin().ends(stream)
    consumer.assign({(stream, 0): 0})
    found: list[tuple[bytes, bytes | None]] = []
    at = 0
    while at < end:
        for batch in consumer.poll(1.0):
            found += [(record[0] or b"", record[1]) for record in batch.records]
            at = batch.next_offset
    consumer.close()
    return found
