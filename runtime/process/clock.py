"""The clock of this machine, for both engines."""

import logging
import time

SET_BACK_MS = 60_000
"""By how much the clock is behind the processing time where a run says so. Small corrections need no attention."""
_log = logging.getLogger(__name__)


def wall_clock() -> int:
    """The time now, in ms since epoch."""
    return time.time_ns() // 1_000_000


class ClockCheck:
    """Warns once where the clock shows a time long before the processing time, which never goes back. Nothing comes due
    by the clock meanwhile, and whoever waits for a window or a timer would see no reason."""

    def __init__(self) -> None:
        self._warned = False

    def check(self, now: int, processing_time: int) -> None:
        """Compare the clock with the processing time that was reached before, both in ms since epoch."""
        if processing_time - now >= SET_BACK_MS and not self._warned:
            self._warned = True
            _log.warning(
                "this machine's clock is %d s behind the processing time that was reached before: windows and timers "
                "in processing time wait until it has come there again. Correct the clock if it is wrong",
                (processing_time - now) // 1000,
            )
