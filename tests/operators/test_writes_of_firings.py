"""A firing writes what it has changed, and nothing else."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from engines.eviction import mark_committed
from engines.lone_windows import LoneWindow, Shown
from fluvial.dsl.triggers import Trigger
from fluvial.dsl.windows import Hopping, Tumbling
from fluvial.runtime.kernel.state_cache import Change
from fluvial.runtime.kernel.windows.triggered import TriggeredWindowOperator
from fluvial.runtime.kernel.windows.triggered_sessions import TriggeredSessionOperator
from fluvial.runtime.kernel.windows.triggers import AT_ONCE, NEVER
from fluvial.runtime.kernel.windows.tumbling import TumblingOperator
from fluvial.runtime.state import MemoryStore


class Counting(MemoryStore):
    """Notes the keys of entries that are written or deleted."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, changes: Iterable[Change]) -> None:
        made = list(changes)
        self.written = [prefix + (key or b"") for prefix, key, _ in made]
        super().write(made)


def commit(window: LoneWindow, room: int) -> list[bytes]:
    """The keys of what a commit writes."""
    window.backend.write(window.operator.changes())
    mark_committed(window.operator, room)
    assert isinstance(window.backend, Counting)
    return window.backend.written


TWO, EACH_FIVE = Trigger(count=2), Trigger(first=5, repeats=True)
ALIGNED: dict[str, Callable[[Any], Any]] = {
    "tumbling": lambda context: TumblingOperator(context, 10),
    "hopping": lambda context: TriggeredWindowOperator(context, Hopping(10, 5), NEVER, AT_ONCE),
    "by count": lambda context: TriggeredWindowOperator(context, Tumbling(10), Trigger(count=2, repeats=True), TWO),
    "by time": lambda context: TriggeredWindowOperator(context, Tumbling(10), EACH_FIVE, EACH_FIVE),
}


@pytest.mark.parametrize("room", [0, 100])
@pytest.mark.parametrize("kind", ALIGNED)
def test_a_window_that_fires_at_its_end_and_stays_writes_nothing(kind: str, room: int) -> None:
    window = LoneWindow(ALIGNED[kind], lateness=50, backend=Counting())
    for key in (b"k", b"l", b"m"):
        window.add(1, 2, 3, key=key)
    commit(window, room)
    window.take()
    window.advance(10)
    on_time = [pane for pane in window.take() if pane.kind == "on_time" and pane.end == 10]
    assert on_time == [Shown(0, 10, [1, 2, 3])] * 3
    assert [key for key in commit(window, room) if b"\0r" not in key] == []  # timers that are over go


@pytest.mark.parametrize("room", [0, 100])
@pytest.mark.parametrize("kind", ALIGNED)
def test_of_a_window_that_has_fired_only_what_comes_late_is_written(kind: str, room: int) -> None:
    window = LoneWindow(ALIGNED[kind], lateness=50, backend=Counting())
    for key in (b"k", b"l", b"m"):
        window.add(1, key=key)
    commit(window, room)
    window.advance(12)
    commit(window, room)
    window.take()
    window.add(2, 3, key=b"l")
    assert {key[-1:] for key in commit(window, room) if b"\0t" in key} == {b"l"}
    window.advance(70)
    shown = window.take()
    assert shown[-1] == Shown(0, 10, [1, 2, 3], "late")
    assert {pane.kind for pane in shown} == {"late"}


def test_a_session_whose_timer_only_moves_on_is_not_written() -> None:
    window = LoneWindow(
        lambda context: TriggeredSessionOperator(context, 10, Trigger(count=5), AT_ONCE),
        lateness=50,
        backend=Counting(),
    )
    window.add(1)
    commit(window, 0)
    window.add(8)
    commit(window, 0)
    window.advance(13)  # the timer of the first message rings: the session goes on
    assert window.take() == []
    assert b"window\0kk" not in commit(window, 0)
    window.advance(19)
    assert window.take() == [Shown(1, 19, [1, 8])]
    assert b"window\0kk" in commit(window, 0)


def of_an_older_version(window: LoneWindow) -> None:
    """Make its entries those of a version that wrote all of them when their window fired."""
    for prefix in list(window.backend.prefixes(b"window\0t")):
        for key, data in list(window.backend.scan(prefix)):
            *fields, _ = msgspec.msgpack.decode(data)
            window.backend.write([(prefix, key, msgspec.msgpack.encode(fields))])


@pytest.mark.parametrize("fired", [False, True])
def test_windows_that_an_older_version_has_kept_go_on(fired: bool) -> None:
    window = LoneWindow(ALIGNED["by count"], lateness=50)
    window.add(1, 2, 3)
    if fired:
        # As it left them: late messages that wait for the trigger.
        window.advance(10)
        window.add(4)
    window = window.restarted()
    of_an_older_version(window)
    window = window.restarted()
    window.take()
    window.advance(12)
    assert window.take() == ([] if fired else [Shown(0, 10, [1, 2, 3])])
    window = window.restarted()
    window.add(5)
    window.advance(70)
    assert window.take() == [Shown(0, 10, [1, 2, 3, 4, 5] if fired else [1, 2, 3, 5], "late")]
