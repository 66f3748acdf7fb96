"""The inbox of a bucket holds no more in memory than it may, and gives each producer's messages in order."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.spark.rows import EndOfInput, Messages, Wake, encode
from fluvial.runtime.spark.worker.inbox import Inbox

STREAMS = ("left", "right")


def block_of(stream: str, producer: int, first: int, values: Sequence[bytes]) -> bytes:
    positions = range(first, first + len(values))
    return encode(Messages(stream, producer, list(positions), [b"k"] * len(values), values, [0] * len(values), None))


@given(
    st.lists(st.tuples(st.sampled_from(STREAMS), st.integers(0, 2), st.lists(st.binary(max_size=9), min_size=1))),
    st.randoms(use_true_random=False),
    st.sampled_from([1, 40, 1 << 20]),
)
def test_messages_come_in_the_order_of_their_producers_from_memory_and_from_a_file(parts, shuffled, most) -> None:  # type: ignore[no-untyped-def]
    numbers = {(stream, producer): 0 for stream in STREAMS for producer in range(3)}
    blocks: list[bytes] = []
    expected: dict[str, list[tuple[int, int, bytes]]] = {stream: [] for stream in STREAMS}
    for stream, producer, values in parts:
        first = numbers[stream, producer]
        numbers[stream, producer] += len(values)
        blocks.append(block_of(stream, producer, first, values))
        expected[stream] += [(producer, first + index, value) for index, value in enumerate(values)]
    blocks.append(encode(Wake()))
    shuffled.shuffle(blocks)
    with Inbox(blocks, most) as inbox:
        assert (inbox.has_messages, inbox.empty, inbox.ended) == (bool(parts), False, False)
        for stream in STREAMS:
            found = [
                (messages.producer, position, value)
                for messages in inbox.messages(stream)
                for position, value in zip(messages.positions, messages.values, strict=True)
            ]
            assert found == sorted(expected[stream])


def test_a_large_inbox_lies_where_spark_spills_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path},/nowhere")
    with Inbox([block_of("left", 0, 0, [b"x" * 100])], most=10_000) as inbox:
        assert not inbox.spilled
        inbox.extend(block_of("left", 0, number, [b"x" * 1_000]) for number in range(1, 101))
        assert inbox.spilled
        assert not list(tmp_path.iterdir())
        assert sum(len(messages.values) for messages in inbox.messages("left")) == 101


def test_a_folder_that_is_not_there_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", "/nowhere")
    with Inbox([block_of("left", 0, 0, [b"x"]), encode(EndOfInput())], most=1) as inbox:
        assert inbox.ended
        assert [messages.values for messages in inbox.messages("left")] == [[b"x"]]


def test_an_inbox_without_blocks_is_empty() -> None:
    with Inbox() as inbox:
        assert inbox.empty
        assert not inbox.has_messages
