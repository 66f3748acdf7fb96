"""The strategies that are shipped: what they draw is what they promise."""

import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from explained import assert_explains
from fluvial.dsl import FluvialError
from fluvial.runtime.testing.strategies import batchings, interleavings, records, timestamps

WORDS = st.lists(st.text(max_size=3), max_size=8)

untyped: Any = records
times_of: Any = timestamps


@dataclass(frozen=True)
class Click:
    user: str
    at: int


@given(records(Click), records(Click, user=st.just("ann")))
def test_records_are_of_their_type(anything: Click, ann: Click) -> None:
    assert isinstance(anything.at, int)
    assert ann.user == "ann"


@given(timestamps(start=100, out_of_order=timedelta(milliseconds=7)))
def test_no_timestamp_is_late(times: list[int]) -> None:
    assert all(time >= max(times[: number + 1]) - 7 for number, time in enumerate(times))


@given(WORDS, st.data())
def test_batches_hold_everything_in_order(words: list[str], data: st.DataObject) -> None:
    batches = data.draw(batchings(words))
    assert [word for batch in batches for word in batch] == words
    assert all(batches)


@given(WORDS, WORDS, st.data())
def test_an_interleaving_keeps_the_order_of_each_stream(one: list[str], other: list[str], data: st.DataObject) -> None:
    mixed = data.draw(interleavings({1: one, 2: other}))
    assert [[word for name, word in mixed if name == stream] for stream in (1, 2)] == [one, other]


WITHOUT = """
import sys
sys.modules["hypothesis"] = None
import fluvial.runtime.testing
try:
    import fluvial.runtime.testing.strategies
except Exception as error:
    print(type(error).__name__, error)
"""


@pytest.mark.slow
def test_without_hypothesis_the_strategies_name_what_to_install() -> None:
    found = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True).stdout
    assert found.startswith("MissingExtraError")
    assert "pip install 'fluvial[testing]'" in found


@pytest.mark.parametrize(
    ("call", "wrong", "expected", "remedy"),
    [
        (lambda: records(Click, usr=st.text()), "Click has no field 'usr'", "one of user, at", "write user="),
        (lambda: records(Click, page=st.text()), "Click has no field 'page'", "one of user, at", "leave out page="),
        (lambda: untyped("Click"), "type_='Click'", "a type", "pass the class"),
        (lambda: times_of(out_of_order=5), "out_of_order is 5", "a timedelta", "timedelta(seconds=...)"),
        (lambda: times_of(count=-1), "count=-1", "not negative", "a whole number"),
    ],
)
def test_a_wrong_argument_is_refused_where_it_is_written(call: Any, wrong: str, expected: str, remedy: str) -> None:
    with pytest.raises(FluvialError) as raised:
        call()
    assert_explains(raised.value, wrong, call, expected, remedy)
