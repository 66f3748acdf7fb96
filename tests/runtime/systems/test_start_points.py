"""Start points stand for offsets on each kind of system."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.sending import KEEPING, system_named
from engines.targets import write
from fluvial.dsl import PlanError
from fluvial.runtime.systems import MemorySystem, System
from fluvial.runtime.systems.start_points import offsets_of, parsed_start


@pytest.fixture(params=KEEPING)
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    return system_named(request.param, tmp_path)


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=ms)


def test_each_kind_of_start_point(system: System) -> None:
    write(system, {"in": [[(None, b"", time, ()) for time in times] for times in ([5, 3, 9], [7])]})
    counts = {"in": 2}
    assert offsets_of(system, {"in": "earliest"}, counts) == {("in", 0): 0, ("in", 1): 0}
    assert offsets_of(system, {"in": "latest"}, counts) == {("in", 0): 3, ("in", 1): 1}
    assert offsets_of(system, {"in": at(6)}, counts) == {("in", 0): 2, ("in", 1): 0}
    assert offsets_of(system, {"in": at(-6)}, counts) == {("in", 0): 0, ("in", 1): 0}
    assert offsets_of(system, {"in": "latest", "in/0": 1}, counts) == {("in", 0): 1, ("in", 1): 1}


def test_a_stream_that_does_not_exist_has_no_offsets(system: System) -> None:
    with pytest.raises(PlanError, match="there is no stream 'in'"):
        offsets_of(system, {"in": "latest"}, {"in": 1})


@given(times=st.lists(st.integers(0, 20), max_size=8), time=st.integers(0, 21))
def test_no_record_before_a_time_is_the_first_that_is_not_older(times: list[int], time: int) -> None:
    system = MemorySystem()
    write(system, {"in": [[(None, b"", one, ()) for one in times]]})
    (offset,) = offsets_of(system, {"in": at(time)}, {"in": 1}).values()
    assert all(one < time for one in times[:offset])
    assert offset == len(times) or times[offset] >= time


@pytest.mark.parametrize("text", ["soon", "-1", "2026-03-01", "2026-03-01T12:00:00", ""])
def test_other_texts_are_no_start_points(text: str) -> None:
    with pytest.raises(ValueError, match="a time with a time zone"):
        parsed_start(text)
