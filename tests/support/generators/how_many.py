"""How many examples a property tries: each time as many as a change can wait for, all of them at length."""

import os

AT_LENGTH = "FLUVIAL_TESTS_AT_LENGTH"
"""The variable that `pytest --long` sets."""

SHARE = 4
LEAST = 10


def examples(number: int) -> int:
    """Of that many examples, how many are tried now."""
    return number if os.environ.get(AT_LENGTH) else max(LEAST, number // SHARE)
