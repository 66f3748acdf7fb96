"""The clock of this machine, for both engines."""

import time


def wall_clock() -> int:
    """The time now, in ms since epoch."""
    return time.time_ns() // 1_000_000
