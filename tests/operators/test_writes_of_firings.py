"""A firing writes what it has changed, and nothing else."""

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import pytest

from engines.eviction import mark_committed
from engines.lone_windows import LoneWindow, Shown
from fluvial.dsl.windows.assigners import Hopping, Tumbling
from fluvial.dsl.windows.triggers import Trigger
from fluvial.runtime.kernel.state_backend import Change
from fluvial.runtime.kernel.time.bounds import END
from fluvial.runtime.kernel.windows.sessions import SessionOperator
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
    assert b"window\0kk" not in commit(window, 0)


SESSIONS: dict[str, Callable[[Any], Any]] = {
    "plain": lambda context: SessionOperator(context, 10),
    "by count": lambda context: TriggeredSessionOperator(context, 10, Trigger(count=4, repeats=True), TWO),
    "by time": lambda context: TriggeredSessionOperator(context, 10, EACH_FIVE, EACH_FIVE),
}
SPANS = b"window\0k"
"""Keys of the entries with the sessions of a key begin with this."""


@pytest.mark.parametrize("room", [0, 100])
@pytest.mark.parametrize("kind", SESSIONS)
def test_a_session_that_fires_at_its_end_and_stays_is_not_written(kind: str, room: int) -> None:
    window = LoneWindow(SESSIONS[kind], lateness=50, backend=Counting())
    for key in (b"k", b"l", b"m"):
        window.add(1, 2, 3, key=key)
    window.advance(13)  # early panes have been shown
    commit(window, room)
    window.take()
    window.advance(14)
    assert window.take() == [Shown(1, 14, [1, 2, 3])] * 3
    assert [key for key in commit(window, room) if key.startswith(SPANS)] == []
    window.add(2, key=b"l")
    assert [key for key in commit(window, room) if key.startswith(SPANS)] == [SPANS + b"l"]
    window.advance(200)
    assert window.take() == [Shown(1, 14, [1, 2, 3, 2], "late")]
    commit(window, room)
    assert list(window.backend.scan(SPANS)) == []


@pytest.mark.parametrize("kind", SESSIONS)
@pytest.mark.parametrize("late", [2, 4, 13, 20])
def test_a_session_that_has_fired_is_fired_after_a_restart(kind: str, late: int) -> None:
    window, other = (LoneWindow(SESSIONS[kind], lateness=50) for _ in range(2))
    for one in (window, other):
        one.add(1, 2, 3)
        one.advance(8)
    window = window.restarted()
    for one in (window, other):
        one.advance(14)
    window = window.restarted()
    for one in (window, other):
        one.add(late)
    window = window.restarted()
    for one in (window, other):
        one.advance(18)
        one.advance(300)
    assert window.panes == other.panes
    assert window.panes[-1].value == ([1, 2, 3, late] if late <= 13 else [late])


@pytest.mark.parametrize("room", [0, 100])
@pytest.mark.parametrize("kind", SESSIONS)
def test_sessions_of_one_key_that_end_together_with_others_all_fire(kind: str, room: int) -> None:
    window = LoneWindow(SESSIONS[kind], lateness=50, backend=Counting())
    for key in (b"k", b"l"):
        window.add(1, 30, key=key)
    commit(window, room)
    window.advance(100)
    on_time = [pane for pane in window.take() if pane.kind == "on_time"]
    assert on_time == [Shown(1, 12, [1])] * 2 + [Shown(30, 41, [30])] * 2
    window.advance(END)
    assert window.take() == []


@pytest.mark.parametrize("accumulate", [False, True])
def test_what_a_discarding_session_has_emitted_is_forgotten(accumulate: bool) -> None:
    window = LoneWindow(SESSIONS["plain"], lateness=50, accumulate=accumulate)
    window.add(1, 2)
    window = window.restarted()
    window.advance(13)
    window = window.restarted(accumulate=True)
    window.add(3)
    window.advance(14)
    assert window.take()[-1] == Shown(1, 14, [1, 2, 3] if accumulate else [3], "on_time", ((1, 13),))


def of_an_older_version(window: LoneWindow) -> None:
    """Make its entries those of a version that wrote all of them when their window fired."""
    for prefix in list(window.backend.prefixes(b"window\0t")):
        for key, data in list(window.backend.scan(prefix)):
            *fields, _ = msgspec.msgpack.decode(data)
            window.backend.write([(prefix, key, msgspec.msgpack.encode(fields))])


def sessions_of_an_older_version(window: LoneWindow) -> None:
    """Make its entries those of a version that wrote sessions when they fired."""
    for key, data in list(window.backend.scan(SPANS)):
        spans = msgspec.msgpack.decode(data)
        older = [[*span[:4], bool(span[4]), *span[5:]] for span in spans]
        window.backend.write([(SPANS, key, msgspec.msgpack.encode(older))])


@pytest.mark.parametrize("kind", SESSIONS)
def test_sessions_that_an_older_version_has_kept_go_on(kind: str) -> None:
    window = LoneWindow(SESSIONS[kind], lateness=50).restarted()
    window.add(1, 2, 3)
    window = window.restarted()
    sessions_of_an_older_version(window)
    window = window.restarted()
    window.advance(13)
    window.take()
    window.advance(14)
    assert window.take() == [Shown(1, 14, [1, 2, 3])]
    window = window.restarted()
    window.add(4)
    window.advance(300)
    assert window.take()[-1:] == [Shown(1, 15, [1, 2, 3, 4], "on_time", ((1, 14),))]


def test_an_older_version_does_not_misread_sessions() -> None:
    window = LoneWindow(SESSIONS["plain"], lateness=50)
    window.add(1)
    window = window.restarted()
    ((_, data),) = window.backend.scan(SPANS)
    with pytest.raises(msgspec.ValidationError, match="Expected `array` of length 6, got 7"):
        msgspec.msgpack.decode(data, type=list[tuple[int, int, list[int], bool, bool, list[tuple[int, int]]]])


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
