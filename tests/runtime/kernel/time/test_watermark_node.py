"""How the watermarks of several inputs become one."""

import pytest

from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.kernel.time.watermark_node import lagging, slowest


@pytest.mark.parametrize(
    ("inputs", "wanted"),
    [
        ([(5, False), (3, False)], (3, False)),
        ([(5, False), (3, True)], (5, False)),
        ([(5, True), (3, True)], (5, True)),
        ([(END, False), (3, True)], (3, True)),
        ([(END, True), (3, False)], (3, False)),
        ([(END, False), (END, True)], (END, False)),
        ([], (END, False)),
    ],
)
def test_the_slowest_that_is_not_idle_counts(inputs: list[tuple[int, bool]], wanted: tuple[int, bool]) -> None:
    assert slowest(inputs) == wanted


@pytest.mark.parametrize(("watermark", "wanted"), [(100, 93), (START, START), (END, END)])
def test_the_ends_of_time_have_no_lag(watermark: int, wanted: int) -> None:
    assert lagging(watermark, 7) == wanted
