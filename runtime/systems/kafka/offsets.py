"""Requests about the offsets of a cluster's topics."""

from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from itertools import chain, repeat
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

from ..contract import StreamPartition
from .clients import LOG, ConnectionMonitor, read_committed_client, read_uncommitted_client
from .errors import GONE
from .requests import NEVER, RequestClient
from .settings import KafkaSettings

PartitionOffsets = dict[StreamPartition, int]

# A new request finds a leader that was just elected; the client by itself would look again after 3 s.
_SOON = (0.1, 0.3, 0.9, 2.7)
_LATE = 5.0
"""Seconds that a request for offsets may take: the first four requests, and all later ones."""

_TO_REMOVE = 60.0
"""Seconds that brokers may take to remove records."""


class TopicOffsets:
    """Requests about the offsets of partitions. Threads may share it.

    `check` raises SystemProblem for a topic or partition that does not exist.
    """

    def __init__(
        self,
        requests: RequestClient,
        settings: KafkaSettings,
        check: Callable[[Iterable[StreamPartition]], None],
    ) -> None:
        self._requests = requests
        self._settings = settings
        self._check = check

    def starts(self, partitions: Collection[StreamPartition]) -> PartitionOffsets:
        """The first offset that can be read."""
        return self._offsets(partitions, OFFSET_BEGINNING, read_uncommitted_client)

    def ends(self, partitions: Collection[StreamPartition], *, patience: float | None = None) -> PartitionOffsets:
        """The offset after the last record that readers see. An open transaction hides all from its start."""
        return self._offsets(partitions, OFFSET_END, _BY_ISOLATION[self._settings.isolation], patience)

    def log_ends(self, partitions: Collection[StreamPartition], *, patience: float | None = None) -> PartitionOffsets:
        """The offset that the next record will have, committed or not."""
        return self._offsets(partitions, OFFSET_END, read_uncommitted_client, patience)

    def since(self, partitions: Collection[StreamPartition], timestamp: int) -> PartitionOffsets:
        """The offset of the first record with this timestamp, in ms since epoch, or a later one. Partitions without
        such a record are left out."""
        offsets = self._offsets(partitions, timestamp, read_uncommitted_client)
        return {partition: offset for partition, offset in offsets.items() if offset != OFFSET_END}

    def trim(self, starts: Mapping[StreamPartition, int]) -> None:
        """Have the records before these offsets removed, without waiting. Errors are logged."""
        partitions = [TopicPartition(stream, partition, offset) for (stream, partition), offset in starts.items()]

        def send(client: AdminClient) -> Future[Any]:
            # One request covers all partitions, and their answers come together.
            asked = client.delete_records(partitions, request_timeout=NEVER, operation_timeout=_TO_REMOVE)
            for one in asked.values():
                one.add_done_callback(logged)
            return next(iter(asked.values()))

        if partitions:
            self._requests.send(send)

    def _offsets(
        self,
        partitions: Collection[StreamPartition],
        which: int,
        make: Callable[[KafkaSettings, ConnectionMonitor], Consumer],
        within: float | None = None,
    ) -> PartitionOffsets:
        # Not with list_offsets: librdkafka frees a request that has timed out while it still writes to it.
        # `which` is a timestamp, or one of the two negative numbers that stand for an end of the partition.
        wanted = [TopicPartition(stream, partition, which) for stream, partition in partitions]
        # If a partition has no known leader yet, the client may check again only after 3 s. A new request checks at
        # once.
        patience = chain(_SOON, repeat(_LATE))

        def send(client: Consumer, seconds: float) -> PartitionOffsets:
            try:
                offsets = client.offsets_for_times(wanted, timeout=min(seconds, next(patience)))
                for partition in offsets:
                    if partition.error is not None:
                        raise KafkaException(partition.error)
            except KafkaException as caught:
                if caught.args[0].code() in GONE:
                    self._check(partitions)
                raise
            offset_of = {(partition.topic, partition.partition): partition.offset for partition in offsets}
            if any(offset < (OFFSET_END if which >= 0 else 0) for offset in offset_of.values()):
                # For a partition whose leader was just elected, the client returns -1001 and no error.
                raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
            return offset_of

        what = "tell the offsets of its topics"
        return self._requests.request_by(make, what, send, patience=within) if wanted else {}


def logged(asked: Future[Any]) -> None:
    """Log the error of a request that nobody waits for."""
    error = asked.exception()
    if error is not None:
        LOG.info("%s", error)


_BY_ISOLATION = {"read_committed": read_committed_client, "read_uncommitted": read_uncommitted_client}
