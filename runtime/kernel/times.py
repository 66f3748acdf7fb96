"""The two ends of time, in ms since epoch."""

START = -(2**63)
"""Before any message: the watermark of an input that has told nothing yet."""

END = 2**63 - 1
"""After every message: the watermark of an input that has ended."""
