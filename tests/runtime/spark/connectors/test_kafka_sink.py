"""The ids of messages: a message that is written again has the same, and no other message has it."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from fluvial.dsl.message import Record
from fluvial.runtime.spark.connectors.kafka_sink import MESSAGE_ID, with_ids
from fluvial.runtime.spark.rows import TASK_BITS, Messages, messages_of

RECORDS: list[Record] = [(None, b"a", 1, ()), (b"k", b"a", 1, ()), (b"k", b"a", 1, (("h", b""),)), (b"k", None, 2, ())]


def ids(*parts: Messages, by_content: bool = True) -> list[tuple[bytes, Record]]:
    seen = Counter[tuple[str, str]]() if by_content else None
    found = []
    for part in parts:
        for key, value, time, headers in with_ids(part, "q/3/1/0", seen).records():
            *others, (name, id) = headers
            assert name == MESSAGE_ID
            found.append((id, (key, value, time, tuple(others))))
    return found


@given(sent=st.lists(st.sampled_from(RECORDS), min_size=1), order=st.randoms(), cut=st.integers(1, 5))
def test_messages_that_come_in_another_order_have_the_same_ids(sent: list[Record], order: object, cut: int) -> None:
    first = ids(messages_of("out", 0, range(len(sent)), sent))
    order.shuffle(sent)  # type: ignore[attr-defined]
    parts = [sent[at : at + cut] for at in range(0, len(sent), cut)]
    again = ids(*(messages_of("out", 0, range(len(part)), part) for part in parts))
    assert sorted(map(repr, first)) == sorted(map(repr, again))
    assert len({id for id, _ in first}) == len(sent)


def test_equal_messages_of_other_streams_and_tasks_have_other_ids() -> None:
    places = [("out", 0), ("other", 0), ("out", 1 << TASK_BITS)]
    found = [ids(messages_of(stream, 0, [first], RECORDS[:1])) for stream, first in places]
    assert len({id for ((id, _),) in found}) == 3


def test_an_id_by_position_takes_the_place_of_one_that_was_there() -> None:
    sent: list[Record] = [(b"k", b"a", 1, ((MESSAGE_ID, b"theirs"), ("h", b"1")))]
    assert ids(messages_of("out", 0, [8], sent), by_content=False) == [(b"q/3/1/0/8", (b"k", b"a", 1, (("h", b"1"),)))]
