"""The ends of time, and the times that messages may have."""

from datetime import timedelta

import pytest

from fluvial.runtime.kernel.time.bounds import EARLIEST, END, LATEST, START, wrong_time

LONGEST = timedelta.max // timedelta(milliseconds=1)


def test_the_latest_message_leaves_room_for_all_that_a_window_adds() -> None:
    size, lateness, gap = LONGEST, LONGEST, LONGEST
    assert START < LATEST + size + lateness + gap + 1 < END


def test_the_earliest_message_leaves_room_for_a_watermark_that_lags_behind() -> None:
    assert START < EARLIEST - LONGEST


@pytest.mark.parametrize(
    ("timestamp", "kind", "text"),
    [
        (LATEST + 1, ValueError, f"must be ms since epoch, {EARLIEST} to {LATEST}, not {LATEST + 1}"),
        (EARLIEST - 1, ValueError, f"must be ms since epoch, {EARLIEST} to {LATEST}, not {EARLIEST - 1}"),
        (1.5, TypeError, "must return an int, ms since epoch, not float: 1.5"),
        (None, TypeError, "must return an int, ms since epoch, not NoneType: None"),
    ],
)
def test_a_wrong_time_says_what_was_expected_and_what_came(timestamp: object, kind: type[Exception], text: str) -> None:
    error = wrong_time(timestamp)
    assert type(error) is kind
    assert text in str(error)
