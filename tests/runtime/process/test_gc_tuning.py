"""The collector looks seldom while tasks run, and as before once the last has ended."""

import gc
from collections.abc import Iterator
from weakref import ref

import pytest

from fluvial.runtime.process.gc_tuning import _Collector, reduced_gc


@pytest.fixture(params=[(700, 10, 10), (100_000, 10, 10), (0, 10, 10)])
def before(request: pytest.FixtureRequest) -> "Iterator[tuple[int, int, int]]":
    kept = gc.get_threshold()
    gc.set_threshold(*request.param)
    yield request.param
    gc.set_threshold(*kept)


def test_it_looks_seldom_until_the_last_run_has_ended(before: tuple[int, int, int]) -> None:
    one, other = reduced_gc(), reduced_gc()
    one.__enter__()
    other.__enter__()
    seldom = gc.get_threshold()[0]
    assert seldom == (50_000 if before[0] == 700 else before[0])
    one.__exit__(None, None, None)
    assert gc.get_threshold()[0] == seldom
    assert gc.get_freeze_count() > 0
    other.__exit__(None, None, None)
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0


def test_what_was_frozen_before_stays_frozen() -> None:
    gc.freeze()
    try:
        with reduced_gc():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


@pytest.fixture
def imports_freed() -> Iterator[None]:
    """What the test has kept is let go again: the process of the tests goes on."""
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("imports_freed")
def test_what_a_process_of_ours_has_imported_is_kept_for_as_long_as_it_lives() -> None:
    gc.disable()
    collector = _Collector()
    collector.keep()
    assert gc.isenabled()
    imported = gc.get_freeze_count()
    assert imported > 0
    made = [[number] for number in range(1000)]
    collector.enter()
    assert gc.get_freeze_count() >= imported + len(made)  # what there is as a run begins, too
    collector.leave()
    assert gc.get_freeze_count() >= imported


class Circle:
    """Refers to itself."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.usefixtures("imports_freed")
def test_what_a_run_has_left_behind_is_not_kept_by_the_next_one() -> None:
    collector = _Collector()
    collector.keep()
    collector.enter()
    left = ref(Circle())
    collector.leave()
    collector.enter()
    assert left() is None
    collector.leave()
