"""The strategies that are shipped: what they draw is what they promise."""

import subprocess
import sys
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.runtime.testing.strategies import batchings, interleavings, records, timestamps

WORDS = st.lists(st.text(max_size=3), max_size=8)


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
