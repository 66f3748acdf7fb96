"""A windowed operator on its own: told of messages and of time, it gives panes."""

from collections.abc import Callable
from typing import Any, NamedTuple

from engines.eviction import mark_committed
from fluvial.dsl import aggregate
from fluvial.dsl.message import Headers, Pane, PaneKind
from fluvial.runtime.kernel.state_cache import Size, evict
from fluvial.runtime.kernel.stateful_operator import StatefulOperator
from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.kernel.windows.aligned import EVERYTHING
from fluvial.runtime.kernel.windows.context import WindowContext
from fluvial.runtime.kernel.windows.fired_windows import FiredWindows
from fluvial.runtime.state import MemoryStore


class Shown(NamedTuple):
    """A pane as a test looks at it."""

    start: int
    end: int
    value: list[int]
    kind: PaneKind = "on_time"
    replaces: tuple[tuple[int, int], ...] = ()


def nothing() -> list[int]:
    return []


def appended(numbers: list[int], number: int) -> list[int]:
    return [*numbers, number]


def joined(one: list[int], other: list[int]) -> list[int]:
    assert one, "what holds no messages is not merged"
    assert other, "what holds no messages is not merged"
    return [*one, *other]


numbers = aggregate(nothing, appended, merge=joined)


class LoneWindow:
    """One key's view of an operator whose messages are their own times: `panes` and `late` tell what came of them,
    `times` the timestamps of the panes."""

    def __init__(
        self,
        make: Callable[[WindowContext], Any],
        *,
        lateness: int = 0,
        accumulate: bool = True,
        backend: MemoryStore | None = None,
        watermark: int = START,
        keeps: bool = False,
        fired_at_end: int = START,
    ) -> None:
        self._make = make
        self._options: dict[str, Any] = {"lateness": lateness, "accumulate": accumulate, "keeps": keeps}
        self._fired = FiredWindows(fired_at_end)
        self.watermark = watermark
        self.backend = backend or MemoryStore()
        self.panes: list[Shown] = []
        self.times: list[int] = []
        self.late: list[int] = []
        self.firings: list[int] = []
        self.scheduled: list[int] = []
        self.operator: StatefulOperator = make(
            WindowContext(
                id="window",
                backend=self.backend,
                empty=backend is None,
                watermark=watermark,
                aggregate=numbers,
                state_type=list[int],
                decode_key=bytes.decode,
                lateness=lateness,
                accumulate=accumulate,
                emit=self._emit,
                fail=self._fail,
                late=self._late,
                schedule=self.scheduled.append,
                firing=self.firings.append,
                pauses=self._pauses,
                keeps=keeps,
                fired=self._fired,
            )
        )

    def _emit(self, key: bytes, pane: Pane[Any, Any], timestamp: int, headers: Headers) -> None:
        assert (key.decode(), headers) == (pane.key, ())
        assert timestamp == pane.window.end - 1 or pane.window == EVERYTHING
        self.times.append(timestamp)
        replaces = tuple((past.start, past.end) for past in pane.replaces)
        self.panes.append(Shown(pane.window.start, pane.window.end, pane.value, pane.kind, replaces))

    def _pauses(self) -> bool:
        # An engine may free memory behind each emission.
        evict(self.operator.caches(), Size(0, 0))
        return False

    def _fail(self, _: bytes, pane: Pane[Any, Any], __: int, error: BaseException) -> None:
        raise AssertionError(f"{pane} has no value") from error

    def _late(self, key: bytes, value: int, timestamp: int, headers: Headers) -> None:
        assert (key, value, headers) == (b"k", timestamp, ())
        self.late.append(timestamp)

    def add(self, *times: int, key: bytes = b"k") -> None:
        """Take in messages at these times."""
        for time in times:
            self.operator.add(key, time, time, (), self.watermark)

    def advance(self, watermark: int) -> None:
        self.watermark = watermark
        self.operator.advance(watermark)

    def end(self) -> list[Shown]:
        """End the input; the panes of that. Time stays where messages have brought it."""
        self.operator.advance(END)
        return self.take()

    def take(self) -> list[Shown]:
        """The panes since the last call."""
        taken, self.panes = self.panes, []
        return taken

    def restarted(self, **options: Any) -> "LoneWindow":
        """Commit, keeping nothing in memory, and begin again from what was written, with some other options."""
        self.backend.write([*self.operator.changes()])
        mark_committed(self.operator, 0)
        kept: dict[str, Any] = {"watermark": self.watermark, "fired_at_end": self._fired.at_end}
        again = LoneWindow(self._make, backend=self.backend, **{**kept, **self._options, **options})
        again.panes, again.times, again.late = self.panes, self.times, self.late
        return again
