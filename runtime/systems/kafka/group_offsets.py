"""Offsets of a pipeline as those of a consumer group, for tools that watch lag."""

from collections.abc import Mapping
from threading import Thread

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ..contract import StreamPartition
from .clients import LOG, ConnectionMonitor, consumer_client
from .settings import KafkaSettings


class GroupOffsets:
    """Notes the offsets of a group that no consumer joins: for information only, and without waiting.

    A consumer of its own commits them. To ask the client for administration instead would end this process now and
    then: librdkafka aborts where such a request, which goes to the coordinator of a group, loses its connection.
    """

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        self._client = consumer_client(settings, ConnectionMonitor(), **{"group.id": group})
        self._commit: Thread | None = None

    def note(self, positions: Mapping[StreamPartition, int]) -> None:
        """Send offsets, unless the cluster still has to answer to those before. What goes wrong is logged."""
        if not positions or (self._commit is not None and self._commit.is_alive()):
            return
        places = [TopicPartition(stream, partition, offset) for (stream, partition), offset in positions.items()]
        # A daemon thread keeps the client as long as the cluster owes an answer: to let go of it waits up to a minute
        # for that answer, which the end of this process must not.
        self._commit = Thread(target=_commit, args=(self._client, places), name="fluvial-offsets", daemon=True)
        self._commit.start()


def _commit(client: Consumer, places: list[TopicPartition]) -> None:
    try:
        client.commit(offsets=places, asynchronous=False)
    except KafkaException as caught:
        LOG.info("offsets were not noted: %s", caught)
