"""The pause before a call that has failed is made again, by the clock and the randomness of its event loop."""

import asyncio

from ....dsl.error_policy import Retry
from ...process.machine import THIS_MACHINE, Machine


def pause_seconds(retry: Retry, repeat: int, error: BaseException, machine: Machine = THIS_MACHINE) -> float:
    """The seconds to wait after an error, before the given repeat, counted from 1. An event loop whose time is virtual
    has a `machine` of its own. Raises what the `after` of the rules raises."""
    machine = getattr(asyncio.get_running_loop(), "machine", machine)
    return retry.wait_ms(repeat, error, now=machine.wall(), random=machine.random()) / 1000
