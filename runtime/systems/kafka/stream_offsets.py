"""Offsets of topics that only logs and clocks tell, and those of consumer groups."""

from collections.abc import Callable, Mapping

from ..contract import StreamPartition
from .cluster import Cluster
from .group_offsets import GroupOffsets
from .settings import KafkaSettings


class KafkaOffsets:
    """Offsets of the topics of a cluster, by partition, and of its consumer groups. Each group that offsets are
    reported of has a client of its own, from `make`."""

    def __init__(self, cluster: Cluster, make: Callable[[KafkaSettings, str], GroupOffsets] = GroupOffsets) -> None:
        self._cluster = cluster
        self._make = make
        self._groups: dict[str, GroupOffsets] = {}

    def log_ends(self, stream: str) -> list[int]:
        """The offset that the next record will have, by partition, those of open transactions counted."""
        return list(self._cluster.offsets.log_ends(self._cluster.partitions_of(stream)).values())

    def since(self, stream: str, timestamp: int) -> list[int]:
        """The offset of the first record with this timestamp, in ms since epoch, or a later one, by partition; the end
        that readers see where there is none."""
        partitions = self._cluster.partitions_of(stream)
        ends = self._cluster.offsets.ends(partitions)
        since = self._cluster.offsets.since(partitions, timestamp)
        return [min(since.get(partition, end), end) for partition, end in ends.items()]

    def report(self, group: str, positions: Mapping[StreamPartition, int]) -> None:
        """Commit offsets of a consumer group, for tools that watch lag. Returns without waiting. While the last commit
        is unanswered, nothing is sent.

        Errors are logged. The cluster accepts no offsets while consumers have joined the group.
        """
        if group not in self._groups:
            self._groups[group] = self._make(self._cluster.settings, group)
        self._groups[group].note(positions)
