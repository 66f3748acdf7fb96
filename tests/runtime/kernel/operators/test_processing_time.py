"""A stateful operator whose time is that of the clock."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from engines.local_tasks import HandClock
from fluvial.runtime.kernel.operators.processing_time import ProcessingTimeOperator
from fluvial.runtime.kernel.state_backend import Change
from fluvial.runtime.kernel.state_cache import WriteBackCache
from fluvial.runtime.kernel.time.bounds import END


class Inner:
    """Notes what it is given."""

    changed = 3

    def __init__(self) -> None:
        self.added: list[tuple[Any, ...]] = []
        self.undone: list[tuple[bytes | None, int]] = []
        self.advanced: list[int] = []

    def add(self, *arguments: Any) -> None:
        self.added.append(arguments)

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        return lambda: self.undone.append((key, timestamp))

    def advance(self, watermark: int) -> bool:
        self.advanced.append(watermark)
        return True

    def next_due(self) -> int:
        return 70

    def changes(self) -> Iterator[Change]:
        return iter([(b"p", b"k", b"v")])

    def mark_committed(self) -> None:
        self.changed = 0

    def caches(self) -> Iterable[WriteBackCache]:
        return ()


def made() -> tuple[Inner, ProcessingTimeOperator, HandClock]:
    inner, clock = Inner(), HandClock(50)
    return inner, ProcessingTimeOperator(inner, lambda: int(clock())), clock


def test_a_message_has_the_time_of_the_clock_and_is_never_late() -> None:
    inner, operator, clock = made()
    operator.add(b"k", 1, 900, (), 1000)
    clock.now = 60
    operator.add(b"k", 2, 5, (), 1000, 1)
    assert inner.added == [(b"k", 1, 50, (), 50), (b"k", 2, 60, (), 60, 1)]


def test_a_message_is_taken_back_at_the_time_of_the_clock() -> None:
    inner, operator, _ = made()
    operator.undo(b"k", 900)()
    assert inner.undone == [(b"k", 50)]


def test_the_clock_fires_it_and_no_watermark() -> None:
    inner, operator, _ = made()
    assert (operator.next_due(), operator.due()) == (END, 70)
    operator.advance(70)
    assert inner.advanced == [70]


def test_its_changes_are_those_of_the_operator_inside() -> None:
    _, operator, _ = made()
    assert (operator.changed, [*operator.changes()], [*operator.caches()]) == (3, [(b"p", b"k", b"v")], [])
    operator.mark_committed()
    assert operator.changed == 0
