"""How many examples a property tries: a few in a quick run, else as many as a change can wait for, all at length."""

import os

AT_LENGTH = "FLUVIAL_TESTS_AT_LENGTH"
"""The variable that `pytest --long` sets."""

QUICK = "FLUVIAL_TESTS_QUICK"
"""The variable that `pytest --quick` sets."""

SHARE = 20
LEAST = 5
FEW = 5
"""The examples of each property in a quick run."""
SOME = 30
"""The examples in CI of a property that does not say how many it tries."""
MANY = 100
"""The examples of such a property at length, and where a developer runs it."""


def examples(number: int, *, least: int = LEAST) -> int:
    """Of that many examples, how many are tried now: at least so many, but in a quick run."""
    if os.environ.get(AT_LENGTH):
        return number
    return FEW if os.environ.get(QUICK) else max(least, number // SHARE)
