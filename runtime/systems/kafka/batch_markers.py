"""Markers of batches: which batch was last written to a partition of an output, by a transaction of that partition.

A marker is an offset of a consumer group, whose metadata say which batch it was. It is committed in the transaction
that has the records of the batch, so both are there or neither. No topic is needed for it, and one request reads it.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ..contract import StreamPartition
from .clients import ConnectionMonitor, consumer_client
from .cluster import Cluster
from .requests import RequestClient
from .settings import KafkaSettings

MakeConsumer = Callable[..., Consumer]


@dataclass(frozen=True, slots=True)
class BatchMarker:
    """The number of a batch, and a digest of what it has written to a partition.

    >>> BatchMarker.parse(BatchMarker(7, 255).text)
    BatchMarker(batch=7, digest=255)
    """

    batch: int
    digest: int

    @property
    def text(self) -> str:
        """The marker as the metadata of an offset."""
        return f"{self.batch} {self.digest:x}"

    @classmethod
    def parse(cls, text: str) -> "BatchMarker":
        """The marker of a text. Raises ValueError for a text that is none."""
        batch, digest = text.split()
        return cls(int(batch), int(digest, 16))


class BatchMarkers:
    """Reads the markers of a consumer group, and adds them to transactions."""

    def __init__(self, cluster: Cluster, group: str, make: MakeConsumer = consumer_client) -> None:
        self._settings, self._group = cluster.settings, group
        self._requests = RequestClient(cluster.settings, cluster.machine)
        self._make, self._make_early = _maker(make, group, "read_committed"), _maker(make, group, "read_uncommitted")

    def read(
        self, partitions: Collection[StreamPartition], *, settled: bool = True
    ) -> dict[StreamPartition, BatchMarker]:
        """The markers of those of these partitions that have one. It waits for transactions with a marker that are
        open; unless it is to be `settled`: then those of transactions that have ended are read.

        Raises SystemProblem for an offset of the group that is no marker, and where the cluster does not answer.
        """
        wanted = [TopicPartition(stream, partition) for stream, partition in partitions]

        def send(client: Consumer, seconds: float) -> list[TopicPartition]:
            return client.committed(wanted, timeout=seconds)

        make = self._make if settled else self._make_early
        committed = self._requests.request_by(make, f"tell the offsets of the group {self._group!r}", send)
        return {(one.topic, one.partition): self._marker(one) for one in committed if one.offset >= 0}

    def _marker(self, partition: TopicPartition) -> BatchMarker:
        try:
            return BatchMarker.parse(partition.metadata or "")
        except ValueError:
            wrong = (
                f"the group {self._group!r} of {self._settings.url} has an offset that no run of Fluvial has committed:"
            )
            wrong += f" {partition.topic} [{partition.partition}] at {partition.offset}"
            remedy = "keep other programs away from the group, and delete it while no run is alive"
            raise SystemProblem(explain(wrong, "offsets with markers of batches", remedy)) from None

    def group(self) -> Any:
        """The group, as a producer takes it that adds markers to its transaction."""
        return self._requests.request_by(self._make, "", lambda client, _: client.consumer_group_metadata())


def offsets(
    markers: Mapping[StreamPartition, BatchMarker], ends: Mapping[StreamPartition, int]
) -> list[TopicPartition]:
    """Markers as offsets behind the records of the batch: tools that watch lag see none."""
    return [
        TopicPartition(stream, partition, ends[stream, partition], metadata=marker.text)
        for (stream, partition), marker in markers.items()
    ]


def _maker(make: MakeConsumer, group: str, isolation: str) -> Any:
    def made(settings: KafkaSettings, monitor: ConnectionMonitor) -> Consumer:
        return make(settings, monitor, **{"group.id": group, "isolation.level": isolation})

    return made
