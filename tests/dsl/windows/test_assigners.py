"""Assigners: lengths of windows in ms, and which lengths are refused."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import PipelineError, hopping, session, tumbling, unbounded
from fluvial.dsl.windows.assigners import Assigner, Hopping, Session, Tumbling, Unbounded

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("assigner", "windows"),
    [
        (tumbling(SECOND), Tumbling(1000)),
        (hopping(5 * SECOND, every=2 * SECOND), Hopping(5000, 2000)),
        (hopping(SECOND, every=SECOND), Hopping(1000, 1000)),
        (session(SECOND), Session(1000)),
        (unbounded(), Unbounded()),
    ],
)
def test_lengths_are_kept_in_ms(assigner: Assigner, windows: Assigner) -> None:
    assert assigner == windows


@pytest.mark.parametrize("length", [timedelta(0), -SECOND, timedelta(microseconds=1)])
@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (tumbling, "tumbling: size"),
        (lambda length: hopping(length, SECOND), "hopping: size"),
        (lambda length: hopping(SECOND, length), "hopping: every"),
        (session, "session: gap"),
    ],
)
def test_a_length_below_one_ms_is_refused(
    make: Callable[[timedelta], Assigner], argument: str, length: timedelta
) -> None:
    assert argument in str(error_of(lambda: make(length), PipelineError))


def test_windows_with_gaps_between_them_are_refused() -> None:
    def gaps() -> None:
        hopping(SECOND, every=2 * SECOND)

    error = error_of(gaps, PipelineError)
    assert_explains(error, "is longer than size", None, "windows without gaps", "filter messages out before")
