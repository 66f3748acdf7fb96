"""Windows whose lateness was increased: what was forgotten before stays forgotten until it is late anyway."""

from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.kernel.windows.grown_lateness import Lateness


def after(lateness: Lateness, watermark: int) -> Position:
    position = Position()
    lateness.add_to(position, [watermark], {"w": 0})
    return position


def test_nothing_is_forgotten_in_a_first_run_or_under_the_same_lateness() -> None:
    assert Lateness(Position()).forgotten("w", 10, 100) == START
    assert Lateness(Position(lateness={"w": 10})).forgotten("w", 10, 100) == START
    assert Lateness(Position(lateness={"w": 10})).forgotten("w", 5, 100) == START


def test_what_was_late_by_the_smaller_lateness_is_forgotten() -> None:
    assert Lateness(Position(lateness={"w": 10})).forgotten("w", 30, 100) == 90


def test_it_stays_forgotten_until_it_is_late_by_the_greater_one() -> None:
    lateness = Lateness(Position(lateness={"w": 10}))
    lateness.forgotten("w", 30, 100)
    assert after(lateness, 119) == Position(lateness={"w": 30}, forgotten={"w": 90})
    assert after(lateness, 120) == Position(lateness={"w": 30})
    assert Lateness(after(lateness, 119)).forgotten("w", 30, 119) == 90


def test_an_operator_that_is_gone_counts_again_when_it_comes_back() -> None:
    before = Position(lateness={"old": 10}, forgotten={"old": 90})
    lateness = Lateness(before)
    lateness.forgotten("w", 5, 100)
    position = after(lateness, 100)
    assert (position.lateness, position.forgotten) == ({"old": 10, "w": 5}, {"old": 90})
