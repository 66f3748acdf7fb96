"""The benchmark of calls measures what it says."""

import sys
from typing import get_args

import pytest

from benchmarks.calls import Contender, Cost, compare, make_calls, service, share

CONTENDERS = get_args(Contender)


@pytest.mark.parametrize("contender", CONTENDERS)
def test_each_contender_makes_all_calls_and_writes_the_same(contender: Contender) -> None:
    cost = make_calls(contender, calls=500, in_flight=50, url=None)
    assert cost.calls == 500
    assert cost.elapsed > 0
    assert cost.processor > 0


@pytest.mark.slow
@pytest.mark.long  # in this process the contenders are compared each time
def test_requests_are_compared_in_processes_of_their_own() -> None:
    lines: list[str] = []
    compare("http", calls=50, in_flight=5, rounds=1, tell=lines.append)
    assert lines[0] == "50 calls by http, 5 in flight\n"
    assert [line.split("  ")[1] for line in lines[1:]] == list(CONTENDERS)


def test_without_its_service_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "true")
    with pytest.raises(AssertionError, match="the service has not begun"), service("http"):
        pass


def test_speeds_are_compared_within_rounds() -> None:
    by_hand, done = ([Cost(10, elapsed, 1.0) for elapsed in elapsed] for elapsed in ((1.0, 2.0, 4.0), (2.0, 2.0, 5.0)))
    assert share(by_hand, done) == 0.8
