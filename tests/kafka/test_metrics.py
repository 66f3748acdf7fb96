"""What a run on a real broker tells of itself."""

import os
import signal
from collections.abc import Callable
from datetime import timedelta

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from fluvial.dsl import Pipeline, count, session
from fluvial.planner import Settings
from fluvial.planner.settings import Guarantee
from fluvial.runtime import Progress, open_system, run
from kafka.broker import Broker
from waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.usefixtures("broker")]

WORDS = 300


def sessions(words: str) -> Pipeline:
    pipeline = Pipeline(f"of-{words}")
    keyed = pipeline.stream(words, value=str).partition_by(str, id="by", key_type=str)
    keyed.window(session(timedelta(milliseconds=3)), count(), id="window").map(lambda pane: pane.value).send_to(
        f"{words}-out"
    )
    return pipeline


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_run_that_has_read_all_has_no_lag(
    broker: Broker, topic: Callable[..., str], guarantee: Guarantee, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Also behind the marks that transactions leave in a topic."""
    words, system = topic(2), open_system(f"kafka://{broker.address}")
    sender = system.record_producer()  # type: ignore[attr-defined]
    for number in (0, 1):
        sender.send(words, number, [(None, b"%d" % (time % 7), time, ()) for time in range(WORDS)])
    sender.flush()
    sender.close()
    told: list[Progress] = []

    def stop_when_all_is_read(progress: Progress) -> None:
        told.append(progress)
        if progress.phase == "running" and (progress.read, progress.lag) == (4 * WORDS, 0):
            os.kill(os.getpid(), signal.SIGINT)

    folder = tmp_path_factory.mktemp("state")
    settings = Settings(guarantee=guarantee, state_dir=str(folder), commit_interval=timedelta(milliseconds=100))
    run(sessions(words), system=system, settings=settings, progress=stop_when_all_is_read)
    assert told[-1].phase == "done"
    assert sum(fact.value for fact in told[-1].facts if fact.metric == "commits") >= 2  # type: ignore[misc]
    wait_until(
        lambda: noted(broker, f"of-{words}") == {(words, number): WORDS for number in (0, 1)},
        "the offsets are noted",
        10,
    )


def noted(broker: Broker, pipeline: str) -> dict[tuple[str, int], int]:
    """The offsets of the sources, as tools for lag see them."""
    client = AdminClient({"bootstrap.servers": broker.address})
    asked = client.list_consumer_group_offsets([ConsumerGroupTopicPartitions(pipeline)])
    partitions = asked[pipeline].result().topic_partitions or []
    return {
        (partition.topic, partition.partition): partition.offset
        for partition in partitions
        if f"of-{partition.topic}" == pipeline
    }
