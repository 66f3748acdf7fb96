"""What protocol logic takes from the machine that it runs on: clocks, pauses, randomness and names."""

import os
import random
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from .clock import wall_clock


def _new_id() -> str:
    return uuid4().hex


def _process_name() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


@dataclass(frozen=True, slots=True)
class Machine:
    """The machine as arguments, so that a test can set the time and need not wait.

    `clock` returns seconds that never go back, and `wall` ms since epoch. `sleep` pauses for some seconds. `random`
    returns a number from 0 up to 1, and `new_id` an id that no other call returns. `process_name` says to people which
    process this is.
    """

    clock: Callable[[], float] = time.monotonic
    wall: Callable[[], int] = wall_clock
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random
    new_id: Callable[[], str] = _new_id
    process_name: Callable[[], str] = _process_name


THIS_MACHINE = Machine()
"""The real machine: what engines and systems use unless a test passes another."""
