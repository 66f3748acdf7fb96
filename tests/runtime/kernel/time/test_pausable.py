"""A firing that pauses goes on where it was, and is over once."""

from collections.abc import Iterator

import pytest

from fluvial.runtime.kernel.time.pausable import PausableFiring


def steps(seen: list[int], count: int) -> Iterator[None]:
    for number in range(count):
        seen.append(number)
        yield


def test_a_firing_goes_on_where_it_has_paused() -> None:
    firing, seen = PausableFiring(), list[int]()
    assert [firing.run(lambda: steps(seen, 2)) for _ in range(3)] == [False, False, True]
    assert (seen, firing.paused) == ([0, 1], False)
    assert not firing.run(lambda: steps(seen, 1))
    assert (seen, firing.paused) == ([0, 1, 0], True)


def test_a_firing_that_does_not_pause_is_over() -> None:
    firing = PausableFiring()
    assert firing.run(lambda: iter(()))
    assert not firing.paused


def test_a_firing_that_fails_is_over() -> None:
    def fails() -> Iterator[None]:
        yield
        raise ValueError("broken")

    firing = PausableFiring()
    assert not firing.run(fails)
    with pytest.raises(ValueError, match="broken"):
        firing.run(fails)
    assert not firing.paused
