"""How offsets are noted for tools that watch lag while the brokers owe answers. No broker is needed."""

from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from fluvial.runtime.systems.kafka.group_offsets import GroupOffsets
from fluvial.runtime.systems.kafka.settings import KafkaSettings
from waiting import wait_until

OWED = KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer"))


class OwingClient:
    """Has noted the offsets of a partition; the answer to each commit is one of `answers`, which it waits for."""

    def __init__(self) -> None:
        self.noted: list[int] = []
        self.answers: SimpleQueue[Exception | None] = SimpleQueue()

    def commit(self, *, offsets: Sequence[TopicPartition], asynchronous: bool) -> None:
        assert not asynchronous
        self.noted += [partition.offset for partition in offsets]
        if error := self.answers.get(timeout=60):
            raise error


def noting(client: Any) -> GroupOffsets:
    return GroupOffsets(KafkaSettings("127.0.0.1:1", {}, {}, 1.0, 1.0), "group", lambda *_, **__: client)


def test_while_an_answer_is_owed_only_the_newest_offsets_wait(committing: Callable[[], int]) -> None:
    client = OwingClient()
    offsets = noting(client)
    offsets.note({})
    for offset in range(1, 100):
        offsets.note({("in", 0): offset})
        wait_until(lambda: client.noted, "the first offset is sent")
    assert (client.noted, committing()) == ([1], 1)
    client.answers.put(OWED)
    wait_until(lambda: len(client.noted) > 1, "the newest offset is sent")
    client.answers.put(None)
    wait_until(lambda: not committing(), "no thread is left")
    assert client.noted == [1, 99]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_unexpected_error_keeps_no_later_offsets_from_being_noted(committing: Callable[[], int]) -> None:
    client = OwingClient()
    offsets = noting(client)
    for offset, answer in ((1, RuntimeError("of the client")), (2, None)):
        client.answers.put(answer)
        offsets.note({("in", 0): offset})
        wait_until(lambda: not committing(), "no thread is left")
    assert client.noted == [1, 2]
