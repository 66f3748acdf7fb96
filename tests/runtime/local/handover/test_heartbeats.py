"""Heartbeats: which containers are taken for silent, and which are not."""

from collections.abc import Collection
from contextlib import closing
from dataclasses import replace
from datetime import timedelta

import pytest

from engines.sending import ProducingSystem
from fluvial.dsl import SystemProblem
from fluvial.runtime.local.handover.heartbeats import Heartbeats
from fluvial.runtime.process.machine import THIS_MACHINE
from waiting import wait_until

TIMEOUT = timedelta(seconds=10)


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Beating:
    """Containers of a run that send heartbeats when a test says so, and what each has told of others."""

    def __init__(self, *numbers: int) -> None:
        self.system, self.time = ProducingSystem(), Time()
        self.told: list[tuple[int, int, list[int]]] = []
        self.machine = replace(THIS_MACHINE, clock=self.time)
        self.containers = {number: self.made(number) for number in numbers}

    def made(self, number: int, run: str = "r") -> Heartbeats:
        def on_silent(silent: int, alive: Collection[int]) -> None:
            self.told.append((number, silent, sorted(alive)))

        def on_turn(_: Collection[int]) -> None: ...

        return Heartbeats(self.system, "p", run, number, TIMEOUT, on_silent, on_turn, self.machine)

    def turns(self, *numbers: int, seconds: float = 0.0) -> None:
        """These take their turns, twice, so that each has heard all; after so many seconds."""
        self.time.now += seconds
        for number in (*numbers, *numbers):
            self.containers[number].turn(0.0)
            for _ in range(20):  # some records at a time
                self.containers[number]._read(0.0)


def test_a_container_that_sends_none_for_a_while_is_told_of_once_in_that_time() -> None:
    beating = Beating(0, 1, 2)
    beating.turns(0, 1, 2)
    for _ in range(4):
        beating.turns(0, 2, seconds=4)
    assert sorted(beating.told) == [(0, 1, [0, 2]), (2, 1, [0, 2])]
    for _ in range(3):
        beating.turns(0, 2, seconds=4)
    assert len(beating.told) == 4


def test_one_that_goes_on_sending_is_never_told_of() -> None:
    beating = Beating(0, 1)
    for _ in range(20):
        beating.turns(0, 1, seconds=4)
    assert not beating.told
    assert beating.containers[0].alive == {0, 1}


def test_one_that_has_ended_in_good_order_is_not_silent() -> None:
    beating = Beating(0, 1)
    beating.turns(0, 1)
    beating.containers[1].close(ended=True)
    for _ in range(10):
        beating.turns(0, seconds=4)
    assert not beating.told
    assert beating.containers[0].alive == {0}


def test_one_that_has_died_is() -> None:
    beating = Beating(0, 1)
    beating.turns(0, 1)
    beating.containers[1].close(ended=False)
    for _ in range(4):
        beating.turns(0, seconds=4)
    assert beating.told == [(0, 1, [0])]


def test_whoever_stood_still_gives_others_their_time_again() -> None:
    beating = Beating(0, 1)
    beating.turns(0, 1)
    beating.turns(0, seconds=100)
    assert not beating.told
    for _ in range(4):
        beating.turns(0, seconds=4)
    assert beating.told == [(0, 1, [0])]


def test_those_of_another_run_are_not_heard() -> None:
    beating = Beating(0)
    beating.containers[1] = beating.made(1, run="another")
    beating.turns(0, 1)
    for _ in range(4):
        beating.turns(0, seconds=4)
    assert not beating.told


def test_a_thread_sends_them_also_after_brokers_were_out_of_reach(caplog: pytest.LogCaptureFixture) -> None:
    beating = Beating(1)
    system, quick = beating.system, timedelta(milliseconds=100)
    told: list[int] = []

    def on_silent(silent: int, alive: Collection[int]) -> None:
        del alive
        told.append(silent)
        raise SystemProblem("no broker")

    with closing(beating.containers[1]._consumer):
        own = Heartbeats(system, "p", "r", 0, quick, on_silent, lambda _: None)
        beating.containers[1]._send(beating.containers[1]._own)
        own.start()
        wait_until(lambda: len(told) > 1, "what is tried again")
        own.close(ended=True)
    assert "are tried again: no broker" in caplog.text
