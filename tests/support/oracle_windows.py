"""What a window keeps of the messages it took, and what it fires: the oracle's half that knows time."""

import copy
import functools
import math
from dataclasses import dataclass
from typing import Any, Literal

from fluvial.dsl import Window
from fluvial.dsl.message import PaneKind
from fluvial.dsl.operators import WindowBy
from fluvial.dsl.windows import Session


@dataclass(frozen=True)
class Firing:
    """One pane about to be emitted; `held` is the accumulator, before `result`."""

    key: Any
    window: Window
    held: Any
    kind: PaneKind
    replaces: tuple[Window, ...]


@dataclass
class Kept:
    """One window of one key: what came (`held`, None inside a tuple of nothing), and which panes of it are out."""

    window: Window
    held: tuple[Any] | None = None
    changed: bool = False
    shown: tuple[Window, ...] = ()


class KeptWindows:
    """The windows of one operator over all keys, and the watermark that the operator has seen.

    With `remember`, a session is kept for a gap longer than its lateness, and as long as a message could join it to one
    that is kept: then sessions are exact for every message that is not late itself and joins what is there when it
    comes. Beyond that exactness would have no end: messages that are accepted, each a gap before the last, may lead
    back to any session of the past.
    """

    def __init__(self, operator: WindowBy, remember: bool) -> None:
        self._operator = operator
        self._remember = remember
        self._kept: dict[bytes, tuple[Any, list[Kept]]] = {}
        self.watermark = -math.inf

    def snapshot(self) -> Any:
        return copy.deepcopy(self._kept)

    def restore(self, snapshot: Any) -> None:
        self._kept = snapshot

    def take(self, encoded: bytes, key: Any, time: int, value: Any) -> Firing | Literal["kept", "late"]:
        """Put a message into its window; a window that is over already fires at once."""
        aggregate = self._operator.aggregate
        own = self._window_of(time)
        windows = self._kept.get(encoded, (key, []))[1]
        # A message and a session chain iff the spans overlap, for each reaches its gap beyond the last message;
        # tumbling windows overlap only if they are equal.
        joined = sorted((w for w in windows if _overlap(w.window, own)), key=lambda w: w.window)
        spans = [own, *(w.window for w in joined)]
        span = Window(min(s.start for s in spans), max(s.end for s in spans))
        if span.end + self._operator.lateness <= self.watermark:
            return "late"
        earlier = [w.held[0] for w in joined if w.held is not None]
        before = functools.reduce(_merging(aggregate), earlier) if earlier else aggregate.init()
        shown = tuple(window for w in joined for window in w.shown)
        result = Kept(span, (aggregate.add(before, value),), changed=True, shown=shown)
        self._kept[encoded] = key, [*(w for w in windows if w not in joined), result]
        return self._fire(key, result, "late") if span.end <= self.watermark else "kept"

    def next_due(self, watermark: float) -> Firing | None:
        """Fire the window with the earliest end, of those that the watermark has reached and that have news."""
        all_kept = [(key, w) for key, windows in self._kept.values() for w in windows]
        due = [(key, w) for key, w in all_kept if w.changed and w.window.end <= watermark]
        if not due:
            return None
        key, first = min(due, key=lambda pair: (pair[1].window.end, pair[1].window.start))
        return self._fire(key, first, "on_time")

    def advance(self, watermark: float) -> None:
        """Count the watermark as seen, and forget the windows that no message can enter any more."""
        self.watermark = watermark
        for encoded, (key, windows) in self._kept.items():
            self._kept[encoded] = key, self._staying(windows, watermark)

    def _staying(self, windows: list[Kept], watermark: float) -> list[Kept]:
        assigner, lateness = self._operator.assigner, self._operator.lateness
        gap = assigner.gap if self._remember and isinstance(assigner, Session) else 0
        stay: list[Kept] = []
        for window in sorted(windows, key=lambda w: w.window, reverse=True):
            over = window.window.end + lateness + gap <= watermark
            # Two sessions at most two gaps apart are at most one gap apart from a message between them.
            near = gap > 0 and bool(stay) and stay[-1].window.start - (window.window.end - gap - 1) <= 2 * gap
            if window.changed or not over or near:
                stay.append(window)
        return stay

    def _window_of(self, time: int) -> Window:
        assigner = self._operator.assigner
        if isinstance(assigner, Session):
            return Window(time, time + assigner.gap + 1)
        start = time - time % assigner.size
        return Window(start, start + assigner.size)

    def _fire(self, key: Any, kept: Kept, kind: PaneKind) -> Firing:
        assert kept.held is not None, "only a window with news fires"
        replaces = tuple(sorted(set(kept.shown) - {kept.window}))
        # A copy, for `add` may change an accumulator in place.
        firing = Firing(key, kept.window, copy.deepcopy(kept.held[0]), kind, replaces)
        kept.shown, kept.changed = (kept.window,), False
        if not self._operator.accumulate:
            kept.held = None
        return firing


def _overlap(one: Window, other: Window) -> bool:
    return one.start < other.end and other.start < one.end


def _merging(aggregate: Any) -> Any:
    def merge(one: Any, other: Any) -> Any:
        return aggregate.merge(one, other)

    return merge
