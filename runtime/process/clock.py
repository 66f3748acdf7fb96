"""The time of day, as both engines take it."""

import time


def wall_clock() -> int:
    """The time, in ms since epoch."""
    return time.time_ns() // 1_000_000
