"""Offsets of topics by partition, and those of groups. No broker is needed."""

from collections.abc import Collection, Mapping
from typing import Any

from fluvial.runtime.systems.contract import StreamPartition
from fluvial.runtime.systems.kafka.admin import KafkaAdmin
from fluvial.runtime.systems.kafka.cluster import Cluster
from fluvial.runtime.systems.kafka.settings import KafkaSettings
from fluvial.runtime.systems.kafka.stream_offsets import KafkaOffsets

SETTINGS = KafkaSettings("127.0.0.1:1", {}, {}, 1.0, 1.0)


class KnownOffsets:
    """Of three partitions: the second has an open transaction, and the third no record that is new enough."""

    def starts(self, places: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        return dict(zip(places, (1, 0, 0), strict=True))

    def ends(self, places: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        return dict(zip(places, (5, 6, 7), strict=True))

    def log_ends(self, places: Collection[StreamPartition]) -> dict[StreamPartition, int]:
        return dict(zip(places, (5, 9, 7), strict=True))

    def since(self, places: Collection[StreamPartition], timestamp: int) -> dict[StreamPartition, int]:
        return dict(zip([*places][:2], (timestamp, 8), strict=True))


class KnownCluster(Cluster):
    """Answers without a broker."""

    offsets: Any = KnownOffsets()

    def count(self, stream: str) -> int:
        del stream
        return 3


def test_offsets_are_by_partition() -> None:
    admin = KafkaAdmin(KnownCluster(SETTINGS))
    assert (admin.starts("in"), admin.ends("in")) == ([1, 0, 0], [5, 6, 7])
    assert admin.offsets.log_ends("in") == [5, 9, 7]


def test_what_readers_do_not_see_is_not_newer_than_a_time() -> None:
    assert KafkaAdmin(KnownCluster(SETTINGS)).offsets.since("in", 3) == [3, 6, 7]


def test_a_group_has_one_client_for_all_that_is_reported_of_it() -> None:
    made: list[str] = []
    noted: list[tuple[str, int]] = []

    class Noting:
        def __init__(self, _: KafkaSettings, group: str) -> None:
            self.group = group
            made.append(group)

        def note(self, positions: Mapping[StreamPartition, int]) -> None:
            noted.append((self.group, positions["in", 0]))

    make: Any = Noting
    offsets = KafkaOffsets(KnownCluster(SETTINGS), make)
    for group, offset in (("one", 1), ("other", 2), ("one", 3)):
        offsets.report(group, {("in", 0): offset})
    assert (made, noted) == (["one", "other"], [("one", 1), ("other", 2), ("one", 3)])
