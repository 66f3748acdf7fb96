"""Machines of tests: time passes with each look at the clock, so that nothing waits for it."""

from dataclasses import replace
from itertools import count
from typing import Any

from fluvial.runtime.process.machine import THIS_MACHINE, Machine


def hasty(seconds: float = 1.0, **given: Any) -> Machine:
    """A machine whose clock moves by so many seconds with each look at it, and which never sleeps."""
    looks = count()
    return replace(THIS_MACHINE, clock=lambda: next(looks) * seconds, sleep=lambda _: None, **given)
