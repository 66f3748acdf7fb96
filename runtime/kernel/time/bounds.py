"""The two ends of time, in ms since epoch, and the times that messages may have."""

START = -(2**63)
"""Before any message: the watermark of an input that has told nothing yet."""

END = 2**63 - 1
"""After every message: the watermark of an input that has ended."""

EARLIEST = -(2**62)
"""The earliest time a message may have: before it there must be room for the watermark that lags behind it."""

LATEST = 2**62
"""The latest time a message may have: beyond it there must be room for the ends of its windows, short of END."""


def wrong_time(timestamp: object) -> Exception:
    """The error of a message with this timestamp."""
    if isinstance(timestamp, int) and not EARLIEST <= timestamp <= LATEST:
        return ValueError(f"a timestamp must be ms since epoch, {EARLIEST} to {LATEST}, not {timestamp}")
    return TypeError(f"timestamp must return an int, ms since epoch, not {type(timestamp).__name__}: {timestamp!r}")
