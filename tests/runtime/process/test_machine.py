"""The machine as arguments: what the real one returns."""

import os
import time

from fluvial.runtime.process.machine import THIS_MACHINE


def test_ids_are_never_the_same() -> None:
    assert THIS_MACHINE.new_id() != THIS_MACHINE.new_id()


def test_the_clock_of_the_wall_is_in_ms_since_epoch() -> None:
    assert abs(THIS_MACHINE.wall() - time.time() * 1000) < 60_000


def test_a_process_is_named_by_its_number() -> None:
    assert THIS_MACHINE.process_name().startswith(f"process {os.getpid()} on ")


def test_random_numbers_lie_between_0_and_1() -> None:
    assert 0 <= THIS_MACHINE.random() < 1
