"""How a run is to change its size: what is accepted, and what is refused."""

from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import UsageError
from fluvial.runtime.autosize import Autosize, BusyTimeAutosizer, SizeBounds


def test_it_has_an_autosizer_and_tells_its_bounds() -> None:
    made = Autosize(containers=(1, 8), elasticity=(2, 16), memory=1000)
    assert isinstance(made.autosizer, BusyTimeAutosizer)
    assert made.bounds(2) == SizeBounds((1, 8), (2, 16), 1000, 2)


@pytest.mark.parametrize(
    ("arguments", "wrong", "expected"),
    [
        ({"containers": (2, 1)}, "Autosize: containers=(2, 1)", "the first is not larger"),
        ({"containers": 4}, "Autosize: containers=4", "two whole numbers"),
        ({"containers": (0, 4)}, "Autosize: containers=(0, 4)", "1 or more"),
        ({"containers": (True, 4)}, "Autosize: containers=(True, 4)", "two whole numbers"),
        ({"elasticity": (1, 3)}, "Autosize: elasticity=(1, 3)", "1, 2, 4, 8, 16, 32 and 64"),
        ({"memory": 0}, "Autosize: memory=0", "a number of bytes"),
        ({"advise": 1}, "Autosize: advise=1", "True or False"),
        ({"autosizer": 5}, "Autosize: autosizer=5", "decide(load, bounds)"),
    ],
)
def test_a_wrong_argument_is_refused(arguments: dict[str, Any], wrong: str, expected: str) -> None:
    given: dict[str, Any] = {"containers": (1, 2)}
    given |= arguments
    assert_explains(error_of(lambda: Autosize(**given), UsageError), wrong, None, expected)
