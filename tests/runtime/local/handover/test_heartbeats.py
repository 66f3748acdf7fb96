"""Heartbeats: which containers are taken for silent, and which are not."""

from dataclasses import replace
from datetime import timedelta

import pytest

from engines.sending import RefusingSystem
from fluvial.runtime.local.handover.heartbeats import Heartbeats
from fluvial.runtime.process.machine import THIS_MACHINE
from waiting import wait_until

TIMEOUT = timedelta(seconds=10)
STREAM = "p-heartbeats"


class Time:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Beating:
    """Containers of a run that send heartbeats when a test says so."""

    def __init__(self, *numbers: int) -> None:
        self.system, self.time = RefusingSystem(), Time()
        self.machine = replace(THIS_MACHINE, clock=self.time)
        self.containers = {number: self.made(number) for number in numbers}

    def made(self, number: int, run: str = "r", incarnation: str = "first") -> Heartbeats:
        return Heartbeats(self.system, "p", run, number, TIMEOUT, self.machine, incarnation)

    def turns(self, *numbers: int, seconds: float = 0.0) -> None:
        """These take their turns, twice, so that each has heard all; after so many seconds."""
        self.time.now += seconds
        for number in (*numbers, *numbers):
            heartbeats = self.containers[number]
            heartbeats.turn_safely(0.0)
            for _ in range(20):  # some records at a time
                if heartbeats._clients is not None:
                    heartbeats._read(heartbeats._clients, 0.0)

    def silent(self, number: int = 0) -> set[int]:
        return {*self.containers[number].silent}


def test_a_container_that_sends_none_for_a_while_is_silent_and_never_alive_again() -> None:
    beating = Beating(0, 1, 2)
    beating.turns(0, 1, 2)
    beating.turns(0, 2, seconds=4)
    assert not beating.silent()
    assert beating.containers[0].alive == {0, 1, 2}
    for _ in range(10):  # also long after it was taken for dead for the first time
        beating.turns(0, 2, seconds=4)
        if beating.time.now >= 16:
            assert beating.silent() == {1}
            assert beating.silent(2) == {1}
        assert beating.containers[0].alive == ({0, 2} if beating.silent() else {0, 1, 2})
    assert beating.containers[0].alive == {0, 2}


def test_one_that_goes_on_sending_is_never_silent() -> None:
    beating = Beating(0, 1)
    for _ in range(20):
        beating.turns(0, 1, seconds=4)
        assert not beating.silent()
    assert beating.containers[0].alive == {0, 1}


def test_one_that_has_ended_in_good_order_is_not_silent() -> None:
    beating = Beating(0, 1)
    beating.turns(0, 1)
    beating.containers[1].close(ended=True)
    for _ in range(10):
        beating.turns(0, seconds=4)
    assert not beating.silent()
    assert beating.containers[0].alive == {0}
    beating.containers[2] = beating.made(2)  # one that starts later knows as well
    beating.containers[2].expect({1: "first"})
    for _ in range(4):
        beating.turns(0, 2, seconds=4)
    assert not beating.silent(2)
    beating.containers[2].expect({1: "second"})  # it has started again, and dies before its first heartbeat
    for _ in range(4):
        beating.turns(0, 2, seconds=4)
    assert beating.silent(2) == {1}


def test_one_that_has_died_is() -> None:
    beating = Beating(0, 1)
    beating.turns(0, 1)
    beating.containers[1].close(ended=False)
    for _ in range(4):
        beating.turns(0, seconds=4)
    assert beating.silent() == {1}


def test_one_that_was_silent_before_this_one_started_is_silent_once_it_has_had_its_time() -> None:
    beating = Beating(0)
    beating.turns(0)
    beating.containers[0].expect({1: "first"})
    beating.turns(0, seconds=4)
    beating.containers[0].expect({1: "first"})  # again and again, which gives it no more time
    assert not beating.silent()
    beating.turns(0, seconds=4)
    beating.turns(0, seconds=4)
    assert beating.silent() == {1}
    beating.containers[0].give_time(1, "second")  # another process of it
    assert not beating.silent()


def test_whoever_stood_still_gives_others_their_time_again() -> None:
    beating = Beating(0, 1)
    beating.turns(0, 1)
    beating.turns(0, seconds=100)
    assert not beating.silent()
    for _ in range(4):
        beating.turns(0, seconds=4)
    assert beating.silent() == {1}


def test_those_of_another_run_are_not_heard_nor_is_an_earlier_process_of_this_one() -> None:
    beating = Beating(0)
    beating.containers[1] = beating.made(1, run="another")
    before = beating.containers[2] = beating.made(0, incarnation="before")
    beating.turns(0, 1, 2)
    for _ in range(4):
        beating.time.now += 4
        beating.turns(1, 2)
    assert not beating.containers[0].silent
    assert beating.containers[0].alive == {0}
    assert not beating.containers[0].hears_itself
    assert before.hears_itself


def test_what_is_no_heartbeat_is_passed_over() -> None:
    beating = Beating(0, 1)
    beating.turns(0, 1)
    own = beating.containers[1]
    assert own._clients is not None
    own._clients.producer.send(
        STREAM, 0, [(b"x", b"not json", 0, ()), (b"x", None, 0, ()), (None, b'{"run": 1}', 0, ())]
    )
    for _ in range(4):
        beating.turns(0, 1, seconds=4)
        assert beating.containers[0].hears_itself
    assert beating.containers[0].alive == {0, 1}


def test_a_stream_that_is_deleted_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    beating = Beating(0, 1)
    beating.turns(0, 1)
    beating.system.admin().remove(STREAM)
    for _ in range(6):
        beating.turns(0, 1, seconds=4)
    assert beating.containers[0].hears_itself
    assert beating.containers[0].alive == {0, 1}
    for _ in range(6):
        beating.turns(0, seconds=4)
    assert beating.silent() == {1}
    assert caplog.text.count("heartbeats of container 0 fail, and are tried again") <= 1


def test_whatever_fails_is_reported_once_and_tried_again_at_the_usual_pace(caplog: pytest.LogCaptureFixture) -> None:
    beating = Beating(0, 1)
    own = beating.containers[0]
    beating.turns(0, 1)

    beating.system.refuses = True
    own._close_clients()
    for _ in range(3):
        beating.turns(0, seconds=2)
    beating.system.refuses = False
    assert caplog.text.count("no broker") == 1
    beating.turns(0, 1, seconds=2)
    assert own.hears_itself
    assert own.alive == {0, 1}


def test_one_that_has_lost_its_place_sends_no_more() -> None:
    beating = Beating(0, 1)
    beating.turns(0, 1)
    beating.containers[1].stop()
    own = beating.containers[1]
    own.start()
    wait_until(lambda: not own._thread.is_alive(), "the end of the thread")
    for _ in range(4):
        beating.turns(0, seconds=4)
    assert beating.silent() == {1}
    own.close(ended=False)
    own.close(ended=True)  # a second end is none


def test_copies_that_have_failed_are_reported() -> None:
    beating = Beating(0, 1)
    beating.containers[1].lack(["a/0"])
    beating.turns(1, 0)
    assert beating.containers[0].lacking(["a/0", "a/1"]) == {1}
    assert not beating.containers[0].lacking(["a/1"])
    beating.containers[1].lack([])
    beating.turns(1, 0)
    assert not beating.containers[0].lacking(["a/0"])


def test_one_that_cannot_tell_that_it_has_ended_ends_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    beating = Beating(0)
    beating.turns(0)
    beating.system.admin().remove(STREAM)
    beating.containers[0].close(ended=True)
    assert "cannot tell others that it has ended" in caplog.text
