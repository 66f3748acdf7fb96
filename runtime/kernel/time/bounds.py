"""The two ends of time, in ms since epoch, and the timestamps that messages may have."""

START = -(2**63)
"""Before any message: the watermark of an input before its first message."""

END = 2**63 - 1
"""After every message: the watermark of an input that has ended."""

EARLIEST = -(2**62)
"""The earliest timestamp of a message. The watermark behind it, less `out_of_order`, must be after START."""

LATEST = 2**62
"""The latest timestamp of a message. The ends of its windows must be before END."""


def wrong_time(timestamp: object) -> Exception:
    """The error of a message with this timestamp."""
    if isinstance(timestamp, int) and not EARLIEST <= timestamp <= LATEST:
        return ValueError(f"a timestamp must be ms since epoch, {EARLIEST} to {LATEST}, not {timestamp}")
    return TypeError(f"timestamp must return an int, ms since epoch, not {type(timestamp).__name__}: {timestamp!r}")
