"""Commits the offsets of a pipeline as those of a consumer group, for tools that watch lag."""

from collections.abc import Mapping
from threading import Thread

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ..contract import StreamPartition
from .clients import LOG, ConnectionMonitor, consumer_client
from .settings import KafkaSettings


class GroupOffsets:
    """Commits offsets of a group that no consumer joins, for information only, without waiting.

    It commits with a consumer of its own. The client for administration is no alternative: librdkafka aborts the
    process when such a request to the coordinator of a group loses its connection.
    """

    def __init__(self, settings: KafkaSettings, group: str) -> None:
        self._client = consumer_client(settings, ConnectionMonitor(), **{"group.id": group})
        self._commit: Thread | None = None

    def note(self, positions: Mapping[StreamPartition, int]) -> None:
        """Commit offsets, unless the last commit is still unanswered. Errors are logged."""
        if not positions or (self._commit is not None and self._commit.is_alive()):
            return
        places = [TopicPartition(stream, partition, offset) for (stream, partition), offset in positions.items()]
        # A daemon thread refers to the client until the answer comes. To close the client would wait for the answer, up
        # to a minute, and the end of this process must not wait.
        self._commit = Thread(target=_commit, args=(self._client, places), name="fluvial-offsets", daemon=True)
        self._commit.start()


def _commit(client: Consumer, places: list[TopicPartition]) -> None:
    try:
        client.commit(offsets=places, asynchronous=False)
    except KafkaException as caught:
        LOG.info("offsets were not noted: %s", caught)
