"""Messages of one stream in the order of their times."""

from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl.message import Record
from fluvial.runtime.spark.rows import Messages, messages_of
from fluvial.runtime.spark.worker.by_time import by_bytes, sorted_by_time

RECORDS = st.lists(
    st.tuples(
        st.none() | st.sampled_from((b"a", b"b")),
        st.none() | st.binary(max_size=2),
        st.integers(0, 3),
        st.sampled_from(((), (("h", b"1"),))),
    ),
    min_size=1,
    max_size=6,
)


def blocks_of(*parts: list[Record]) -> list[Messages]:
    return [messages_of("in", 0, range(len(part)), part) for part in parts if part]


def in_order(records: list[Record]) -> list[tuple[int, Any]]:
    return sorted((time, by_bytes(key, value)) for key, value, time, _ in records)


@given(RECORDS, st.integers(0, 6))
def test_the_order_does_not_depend_on_how_the_messages_were_divided(records: list[Record], cut: int) -> None:
    for parts in permutations((records[:cut], records[cut:])):
        found = [record for block in sorted_by_time(blocks_of(*parts)) for record in block.records()]
        assert [(time, by_bytes(key, value)) for key, value, time, _ in found] == in_order(records)
        assert sorted(map(repr, found)) == sorted(map(repr, records))


def test_times_may_be_read_from_the_messages() -> None:
    records: list[Record] = [(None, b"2", 0, ()), (None, b"1", 0, ())]
    (block,) = sorted_by_time(blocks_of(records), lambda _, values, __: [int(value or b"0") for value in values])
    assert block.values == (b"1", b"2")


def test_many_come_in_parts() -> None:
    records: list[Record] = [(None, b"", time, ()) for time in (3, 1, 2)]
    assert [list(block.times) for block in sorted_by_time(blocks_of(records), most=2)] == [[1, 2], [3]]


def test_none_are_none() -> None:
    assert list(sorted_by_time([])) == []
