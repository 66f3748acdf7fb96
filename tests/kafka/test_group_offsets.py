"""Offsets of a run as those of a consumer group, for tools that watch lag."""

from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from fluvial.dsl import Pipeline
from fluvial.runtime import KafkaSystem, Settings, run
from kafka.broker import Broker

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("wanted", [True, False])
def test_offsets_are_noted_where_they_are_wanted(broker: Broker, *, wanted: bool) -> None:
    name = f"noted-{uuid4().hex[:8]}"
    system = KafkaSystem(broker.address)
    system.admin().create(f"{name}-in", 1)
    writing = system.producer().begin()
    writing.append(f"{name}-in", 0, [(None, b"1", 1_000, ())] * 5)
    writing.commit()
    pipeline = Pipeline(name)
    pipeline.stream(f"{name}-in", value=int).send_to(f"{name}-out")
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": name})

    def noted() -> int:
        (partition,) = reader.committed([TopicPartition(f"{name}-in", 0)])
        return partition.offset

    # A run may be over before its offsets have been sent; another one notes them, too.
    for _ in range(50 if wanted else 1):
        run(pipeline, system=system, settings=Settings(group_offsets=wanted), until="end")
        if noted() >= 0:
            break
    assert (noted() >= 0) is wanted
    reader.close()
