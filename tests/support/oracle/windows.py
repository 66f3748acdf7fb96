"""What a window keeps of the messages it took, and what it fires: the oracle's half that knows time."""

import copy
import functools
import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fluvial.dsl import Message, Trigger, Window
from fluvial.dsl.message import PaneKind
from fluvial.dsl.operators import WindowBy
from fluvial.dsl.windows.assigners import Assigner, Hopping, Session, Unbounded
from oracle.triggers import Seen, after_firing, deadline, reached, together

WITHOUT_END = Window(-(2**62), 2**62)
"""The one window of `unbounded`."""

Phase = Literal["first", "second", "over"]
"""Until its end a window is in its first phase, within its lateness in the second; then it is over."""


@dataclass(frozen=True)
class Firing:
    """One pane about to be emitted; `held` is the accumulator, before `result`, and `time` when it fires, where the
    watermark lets it."""

    key: Any
    window: Window
    held: Any
    kind: PaneKind
    replaces: tuple[Window, ...]
    timestamp: int
    time: float = math.inf


@dataclass
class Kept:
    """One window of one key: what its next pane would hold (None inside a tuple of nothing), and what is out already.

    `times` are the timestamps of the messages held; `seen` is what the trigger of the phase has seen; `unshown` tells
    of a message since the last pane, `unsettled` of one since the last pane on time. `shown` are the windows of panes
    that the next pane takes the place of.
    """

    window: Window
    phase: Phase
    held: tuple[Any] | None
    times: list[int]
    seen: Seen = field(default_factory=Seen)
    unshown: bool = True
    unsettled: bool = True
    shown: tuple[Window, ...] = ()


@dataclass(frozen=True)
class DueWindow:
    """Something that the watermark brings to a window: the end of its phase (`rank` 0), or its trigger's time (1)."""

    time: float
    rank: int
    key: Any
    kept: Kept


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

    def take(self, encoded: bytes, message: Message[Any], _: int) -> list[Firing] | Literal["late"]:
        """Put a message into those of its windows that are not over; what fires at once, by the ends of windows."""
        own = windows_of(self._operator.assigner, message.timestamp)
        taking = [window for window in own if self._phase_of(self._joined(encoded, window)[0]) != "over"]
        if not taking:
            return "late"
        fired = [self._put(encoded, message, window) for window in taking]
        return [firing for firing in fired if firing is not None]

    def _put(self, encoded: bytes, message: Message[Any], own: Window) -> Firing | None:
        """Put a message into one of its windows; what its trigger then fires."""
        key, value, time = message.key, message.value, message.timestamp
        aggregate = self._operator.aggregate
        span, joined = self._joined(encoded, own)
        phase = self._phase_of(span)
        earlier = [w.held[0] for w in joined if w.held is not None]
        before = functools.reduce(_merging(aggregate), earlier) if earlier else aggregate.init()
        result = Kept(
            span,
            phase,
            (aggregate.add(before, value),),
            [*(one for w in joined for one in w.times), time],
            # A trigger goes on where the windows were in the phase that their session is in now.
            seen=together(w.seen for w in joined if w.phase == phase),
            shown=tuple(window for w in joined for window in w.shown),
        )
        others = [w for w in self._windows_of_key(encoded) if w not in joined]
        self._kept[encoded] = key, [*others, result]
        kind: PaneKind = "early" if phase == "first" else "late"
        trigger = self._trigger_of(phase)
        if trigger is None:
            return self._fire(key, result, kind) if phase == "second" else None
        result.seen.add(max(time, self.watermark))
        return self._fire_trigger(key, result, trigger) if reached(trigger, result.seen) else None

    def _joined(self, encoded: bytes, own: Window) -> tuple[Window, list[Kept]]:
        """The window that a message's own window makes with what is kept, and those it joins for that, by time."""
        # A message and a session chain iff the spans overlap, for each reaches its gap beyond the last message.
        chain = _overlap if isinstance(self._operator.assigner, Session) else _same
        joined = sorted((w for w in self._windows_of_key(encoded) if chain(w.window, own)), key=lambda w: w.window)
        spans = [own, *(w.window for w in joined)]
        return Window(min(s.start for s in spans), max(s.end for s in spans)), joined

    def _windows_of_key(self, encoded: bytes) -> list[Kept]:
        return self._kept[encoded][1] if encoded in self._kept else []

    def _phase_of(self, window: Window) -> Phase:
        if window.end > self.watermark:
            return "first"
        return "second" if window.end + self._operator.lateness > self.watermark else "over"

    def _trigger_of(self, phase: Phase) -> Trigger | None:
        return self._operator.trigger if phase == "first" else self._operator.late_trigger

    def next_due(self, watermark: float) -> Firing | None:
        """The next pane, in the order of times, that the watermark brings in coming so far."""
        while found := self._all_due(watermark):
            first = min(found, key=lambda due: (due.time, due.rank, due.kept.window))
            if first.rank == 0:
                firing = self._end_phase(first.key, first.kept)
            else:
                trigger = self._trigger_of(first.kept.phase)
                assert trigger is not None, "only a trigger has a time"
                firing = replace(self._fire_trigger(first.key, first.kept, trigger), time=first.time)
            if firing is not None:
                return firing
        return None

    def _all_due(self, watermark: float) -> list[DueWindow]:
        found: list[DueWindow] = []
        for key, kept in ((key, w) for key, windows in self._kept.values() for w in windows):
            end = self._end_of_phase(kept)
            if end is None:
                continue
            time = deadline(self._trigger_of(kept.phase), kept.seen)
            if end <= watermark:
                # Where the watermark comes to both, only the end of the phase is told.
                found.append(DueWindow(end, 0, key, kept))
            elif time < end and time <= watermark:
                found.append(DueWindow(time, 1, key, kept))
        return found

    def _end_of_phase(self, kept: Kept) -> float | None:
        """When the phase ends; None where time has no more to bring. A window without end has the end of input."""
        if isinstance(self._operator.assigner, Unbounded):
            return math.inf if kept.unsettled else None
        match kept.phase:
            case "first":
                return kept.window.end
            case "second":
                return kept.window.end + self._operator.lateness
            case "over":
                return None

    def _end_phase(self, key: Any, kept: Kept) -> Firing | None:
        """Show what the end of a phase is to show; the next phase begins with a trigger that has seen nothing."""
        if isinstance(self._operator.assigner, Unbounded):
            kept.unsettled = False
            return self._fire(key, kept, "on_time") if kept.held is not None else None
        ended, kept.seen = kept.phase, Seen()
        kept.phase = "second" if ended == "first" else "over"
        if ended == "first":
            return self._fire(key, kept, "on_time") if kept.held is not None else None
        return self._fire(key, kept, "late") if kept.unshown else None

    def advance(self, watermark: float) -> None:
        """Count the watermark as seen, and forget the windows that no message can enter any more."""
        self.watermark = watermark
        for encoded, (key, windows) in self._kept.items():
            self._kept[encoded] = key, self._staying(windows, watermark)

    def _staying(self, windows: list[Kept], watermark: float) -> list[Kept]:
        assigner, lateness = self._operator.assigner, self._operator.lateness
        if isinstance(assigner, Unbounded):
            return windows
        gap = assigner.gap if self._remember and isinstance(assigner, Session) else 0
        stay: list[Kept] = []
        for window in sorted(windows, key=lambda w: w.window, reverse=True):
            over = window.window.end + lateness + gap <= watermark
            # Two sessions at most two gaps apart are at most one gap apart from a message between them.
            near = gap > 0 and bool(stay) and stay[-1].window.start - (window.window.end - gap - 1) <= 2 * gap
            if not over or near:
                stay.append(window)
        return stay

    def _fire_trigger(self, key: Any, kept: Kept, trigger: Trigger) -> Firing:
        kept.seen = after_firing(trigger)
        return self._fire(key, kept, "early" if kept.phase == "first" else "late")

    def _fire(self, key: Any, kept: Kept, kind: PaneKind) -> Firing:
        assert kept.held is not None, "only a window that holds something fires"
        replaces = tuple(sorted(set(kept.shown) - {kept.window}))
        timestamp = max(kept.times) if isinstance(self._operator.assigner, Unbounded) else kept.window.end - 1
        # A copy, for `add` may change an accumulator in place.
        firing = Firing(key, kept.window, copy.deepcopy(kept.held[0]), kind, replaces, timestamp)
        kept.shown, kept.unshown = (kept.window,), False
        if not self._operator.accumulate:
            kept.held, kept.times = None, []
        return firing


def windows_of(assigner: Assigner, time: int) -> list[Window]:
    """The windows that a message at that time would have if it were alone, by their ends."""
    if isinstance(assigner, Unbounded):
        return [WITHOUT_END]
    if isinstance(assigner, Session):
        return [Window(time, time + assigner.gap + 1)]
    every = assigner.every if isinstance(assigner, Hopping) else assigner.size
    start = time - time % every
    found: list[Window] = []
    while start + assigner.size > time:
        found.insert(0, Window(start, start + assigner.size))
        start -= every
    return found


def _overlap(one: Window, other: Window) -> bool:
    return one.start < other.end and other.start < one.end


def _same(one: Window, other: Window) -> bool:
    return one == other


def _merging(aggregate: Any) -> Any:
    def merge(one: Any, other: Any) -> Any:
        return aggregate.merge(one, other)

    return merge
