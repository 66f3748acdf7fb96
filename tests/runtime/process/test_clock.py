"""The clock of this machine beside the processing time."""

import pytest

from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.process.clock import ClockCheck


def test_a_clock_that_was_set_back_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    check = ClockCheck()
    for now in (5_000_000, 4_940_001):
        check.check(now, 5_000_000)
    assert caplog.messages == []
    for now in (4_940_000, 1_000_000):
        check.check(now, 5_000_000)
    (warning,) = caplog.messages
    assert warning.startswith("this machine's clock is 60 s behind the processing time that was reached before")


def test_before_the_first_processing_time_no_clock_is_behind(caplog: pytest.LogCaptureFixture) -> None:
    ClockCheck().check(0, START)
    assert caplog.messages == []
