"""Which windows a time lies in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fluvial.dsl import Window
from fluvial.dsl.windows.assigners import Hopping, Tumbling, Unbounded
from fluvial.runtime.kernel.time.bounds import END
from fluvial.runtime.kernel.windows.aligned import ends_of, window_of

SIZES = st.integers(1, 40)


@given(SIZES, SIZES, st.integers(-100, 100))
def test_hopping_windows_are_all_that_hold_the_time(one: int, other: int, time: int) -> None:
    size, every = max(one, other), min(one, other)
    assigner = Hopping(size, every)
    found = [window_of(assigner)(end) for end in ends_of(assigner)(time)]
    starts = [start for start in range(-200, 200) if start % every == 0]
    assert found == [Window(start, start + size) for start in starts if start <= time < start + size]


@given(SIZES, st.integers(-100, 100))
def test_hops_as_long_as_the_windows_make_them_tumble(size: int, time: int) -> None:
    assert [*ends_of(Hopping(size, size))(time)] == [*ends_of(Tumbling(size))(time)]


@pytest.mark.parametrize("time", [-7, 0, 7])
def test_the_unbounded_window_holds_all_times(time: int) -> None:
    (end,) = ends_of(Unbounded())(time)
    window = window_of(Unbounded())(end)
    assert end == END
    assert window.start <= time < window.end
