"""Commits the offsets of a pipeline as those of a consumer group, for tools that watch lag."""

import atexit
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from weakref import WeakSet

from confluent_kafka import Consumer, KafkaException, TopicPartition

from ..contract import StreamPartition
from .clients import LOG, ConnectionMonitor, consumer_client
from .settings import KafkaSettings

_AT_EXIT = 1.0
"""The longest time that the end of a process waits for the offsets of its last commit, in seconds."""


class GroupOffsets:
    """Commits offsets of a group that no consumer joins, for information only, without waiting.

    It commits with a consumer of its own. The client for administration is no alternative: librdkafka aborts the
    process when such a request to the coordinator of a group loses its connection.
    """

    def __init__(self, settings: KafkaSettings, group: str, make: Callable[..., Consumer] = consumer_client) -> None:
        self._client = make(settings, ConnectionMonitor(), **{"group.id": group})
        self._lock = Lock()
        self._newest: Mapping[StreamPartition, int] | None = None
        self._thread: Thread | None = None

    def note(self, positions: Mapping[StreamPartition, int]) -> None:
        """Commit offsets, at once or when the last commit is answered; of those that wait, only the newest are
        committed. Errors are logged."""
        if not positions:
            return
        with self._lock:
            self._newest = positions
            if self._thread is not None and self._thread.is_alive():
                return
            # A daemon thread refers to the client until the answer comes. To close the client would wait for the
            # answer, up to a minute, and the end of this process must not wait for that long.
            self._thread = Thread(target=self._commit_newest, name="fluvial-offsets", daemon=True)
            self._thread.start()
            _THREADS.add(self._thread)

    def _commit_newest(self) -> None:
        while (positions := self._taken()) is not None:
            partitions = [
                TopicPartition(stream, partition, offset) for (stream, partition), offset in positions.items()
            ]
            _commit(self._client, partitions)

    def _taken(self) -> Mapping[StreamPartition, int] | None:
        """What is to be committed next; None ends the thread."""
        with self._lock:
            positions, self._newest = self._newest, None
            if positions is None:
                self._thread = None  # while it ends, it takes no more
            return positions


def _commit(client: Consumer, partitions: list[TopicPartition]) -> None:
    try:
        client.commit(offsets=partitions, asynchronous=False)
    except KafkaException as caught:
        LOG.info("offsets were not noted: %s", caught)


_THREADS = WeakSet[Thread]()
"""Those that commit, in this process."""


@atexit.register
def _wait_for_commits() -> None:  # pragma: no cover - the end of a process is not traced
    """A run that has read all shows no lag behind its end, however short it was."""
    threads = list(_THREADS)
    for thread in threads:
        thread.join(_AT_EXIT / len(threads))
