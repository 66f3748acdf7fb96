"""Offsets of a pipeline as those of a consumer group, for tools that watch lag."""

from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from ..contract import StreamPartition
from .clients import LOG, Watch, consumer_client
from .settings import KafkaSettings


class GroupOffsets:
    """Notes the offsets of a group that no consumer joins: for information only, and without waiting.

    A consumer of its own commits them. To ask the client for administration instead would end this process now and
    then: librdkafka aborts where such a request, which goes to the coordinator of a group, loses its connection.
    """

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        self._under_way = False
        self._client = consumer_client(settings, Watch(), **{"group.id": group, "on_commit": self._answered})

    def note(self, positions: Mapping[StreamPartition, int]) -> None:
        """Send offsets, unless the cluster still has to answer to those before. What goes wrong is logged."""
        self._client.poll(0)  # which calls _answered
        if self._under_way or not positions:
            return
        places = [TopicPartition(stream, partition, offset) for (stream, partition), offset in positions.items()]
        try:
            self._client.commit(offsets=places, asynchronous=True)
            self._under_way = True
        except KafkaException as caught:
            LOG.info("offsets were not noted: %s", caught)

    def _answered(self, error: KafkaError | None, _: list[TopicPartition]) -> None:
        self._under_way = False
        if error is not None:
            LOG.info("offsets were not noted: %s", error)
