"""Which markers of batches are read while transactions are open. No broker is needed."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from fluvial.dsl import SystemProblem
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.systems.kafka.batch_markers import BatchMarker, BatchMarkers, offsets
from fluvial.runtime.systems.kafka.settings import KafkaSettings

MARKER = BatchMarker(3, 255)


class Group:
    """The consumer of a group with a transaction that nobody ends, and a marker of one that has ended."""

    def __init__(self, isolation: str, text: str) -> None:
        self._isolation, self._text = isolation, text

    def committed(self, partitions: Sequence[TopicPartition], *, timeout: float) -> list[TopicPartition]:
        assert timeout > 0
        if self._isolation == "read_committed":
            raise TimeoutError("it waits for a transaction that nobody ends")
        first, *others = partitions
        marked = TopicPartition(first.topic, first.partition, 7, metadata=self._text)
        return [marked, *(TopicPartition(one.topic, one.partition, -1001) for one in others)]

    def consumer_group_metadata(self) -> str:
        return self._isolation


def markers(text: str) -> BatchMarkers:
    settings = KafkaSettings("127.0.0.1:1", {}, {}, 1.0, 1.0)
    cluster: Any = SimpleNamespace(settings=settings, machine=THIS_MACHINE)

    def make(*_: object, **conf: str) -> Any:
        assert conf["group.id"] == "q"
        return Group(conf["isolation.level"], text)

    return BatchMarkers(cluster, "q", make)


def test_markers_may_be_read_beside_a_transaction_that_nobody_ends() -> None:
    found = markers(MARKER.text)
    assert found.read([("out", 0), ("out", 1)], settled=False) == {("out", 0): MARKER}
    with pytest.raises(TimeoutError, match="nobody ends"):
        found.read([("out", 0)])
    assert found.group() == "read_committed"


def test_an_offset_without_a_marker_is_of_another_program() -> None:
    with pytest.raises(SystemProblem, match="an offset that no run of Fluvial has committed"):
        markers("").read([("out", 0)], settled=False)


def test_a_marker_is_the_text_of_the_offset_behind_its_batch() -> None:
    (offset,) = offsets({("out", 0): MARKER}, {("out", 0): 9, ("out", 1): 2})
    assert (offset.topic, offset.partition, offset.offset) == ("out", 0, 9)
    assert BatchMarker.parse(offset.metadata or "") == MARKER
