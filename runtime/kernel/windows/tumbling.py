"""Tumbling windows: an accumulator per window end and key; the ends are the timers."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from ....dsl.message import Headers, Window
from ..state_backend import Change
from ..state_cache import TimeBucketedState, WriteBackCache
from ..stateful_operator import keyless
from ..time.bounds import END
from ..time.pausable import PausableFiring
from .context import WindowContext


class TumblingOperator:
    """Windows of one size. State: end -> key -> accumulator, until the watermark reaches end + lateness.

    Windows that fired at an end of input, before their time, have further state: end -> the keys that have changed
    since, which fire again.
    """

    def __init__(self, context: WindowContext, size: int) -> None:
        self._context = context
        self._size = size
        self._lateness = context.lateness
        self._fired = context.watermark
        self._pane = context.panes()
        self._state = TimeBucketedState(
            context.id, context.backend, context.state_type, context.aggregate.init, context.empty, context.schedule
        )
        self._firing = PausableFiring()
        self._done = context.fired
        self._changed = TimeBucketedState(
            context.id, context.backend, bool, bool, context.empty, lambda _: None, mark=b"e"
        )
        self.add = self._add()

    def _add(self) -> Callable[[bytes | None, Any, int, Headers, int], None]:
        # A closure over locals: this runs for each message.
        size, lateness, state, fold = self._size, self._lateness, self._state, self._context.aggregate.add
        late, fire, at, forgotten = self._context.late, self._fire, self._state.at, self._context.forgotten
        done, changed, begin_again = self._done, self._changed, self._begin_again

        def add(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
            end = timestamp - timestamp % size + size
            if key is None:
                raise keyless()
            if end + lateness <= watermark:
                late(key, value, timestamp, headers)
                return
            cache = at.get(end)
            if cache is None and end <= forgotten:
                late(key, value, timestamp, headers)
                return
            fresh = cache.fresh if cache is not None else state.fresh(end)
            again = end <= done.upto
            if again:
                begin_again(end, key)
            fresh[key] = fold(fresh[key], value)
            if again:
                changed.fresh(end)[key] = True
            # If a message in flight still holds the firing of this window back, the on-time pane has this message too.
            if end <= watermark and end <= self._fired:
                fire(end, key, fresh[key])

        return add

    def _begin_again(self, end: int, key: bytes) -> None:
        """Discarding, forget what a firing that is not over has emitted of a window, before a message comes to it."""
        emitted = not self._context.accumulate and self._done.has(end, key)
        if emitted and not self._changed.fresh(end)[key]:
            self._state.at[end].delete(key)

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        """A function that restores the window of a key that a message of this time falls into."""
        end = timestamp - timestamp % self._size + self._size
        restores = [self._state.undo(end, key or b"", self._context.snapshot), self._changed.undo(end, key or b"")]

        def take_back() -> None:
            for restore in restores:
                restore()

        return take_back

    def _fire(self, end: int, key: bytes, accumulator: Any) -> None:
        """Emit a late pane."""
        stays = self._context.accumulate
        self._pane(key, Window(end - self._size, end), accumulator, "late", stays=stays)
        if not stays:
            self._state.at[end].delete(key)

    def _fire_all(self, end: int, stays: bool, forgets: bool = False) -> Iterator[None]:
        """Emit the on-time panes of all keys, and forget them unless state `stays`. With `forgets` each is forgotten at
        once: a run that stops while the firing pauses leaves nothing of it to later runs."""
        window, pane, pauses, done = Window(end - self._size, end), self._pane, self._context.pauses, self._done
        for key, accumulator in self._not_fired(end):
            pane(key, window, accumulator, "on_time", stays=stays)
            if end in self._changed.at:
                self._changed.at[end].delete(key)
            if forgets:
                self._state.at[end].delete(key)
            if pauses():
                if not forgets:
                    done.pause(end, key)
                yield
        done.complete(end)
        if end in self._changed.at:
            self._changed.drop(end)
        if not stays:
            self._state.drop(end)

    def _not_fired(self, end: int) -> Iterator[tuple[bytes, Any]]:
        """The keys and accumulators of a window, without those that have fired since they last changed: at an end of
        input, or in a firing that has paused."""
        changed, state, done = self._changed.at.get(end), self._state.at[end], self._done
        if end <= done.at_end:
            fresh = state.fresh
            return ((key, fresh[key]) for key, _ in changed.items()) if changed is not None else iter(())
        if done.cursor is None:
            return state.items()
        marked = {} if changed is None else dict(changed.items())
        return ((key, value) for key, value in state.items() if not done.has(end, key) or key in marked)

    def _fire_at_end(self) -> Iterator[None]:
        """Fire all windows at the end of input, and keep them for a later run. Time does not move on."""
        for end in sorted(self._state.at):
            if end > self._fired:
                self._context.firing(end)
                yield from self._fire_all(end, stays=True)
                self._done.end(end)

    def advance(self, watermark: int) -> bool:
        """Fire the windows that have ended, earliest first, and drop those that take no more messages."""
        if watermark == END and self._context.keeps:
            return self._firing.run(self._fire_at_end)
        if watermark < self.next_due() and not self._firing.paused:
            self._fired = watermark
            return True
        return self._firing.run(lambda: self._fire_due(watermark))

    def _fire_due(self, watermark: int) -> Iterator[None]:
        for end in sorted(self._state.at):
            if self._fired < end <= watermark:
                self._context.firing(end)
                self._fired = end
                stays = self._context.accumulate and end + self._lateness > watermark
                yield from self._fire_all(end, stays, forgets=watermark == END)
            if end + self._lateness <= watermark:
                self._forget(end)
        if watermark < END:
            self._fired = watermark

    def _forget(self, end: int) -> None:
        for state in (self._state, self._changed):
            if end in state.at:
                state.drop(end)

    def next_due(self) -> int:
        """The watermark at which a window fires, or is dropped, in ms since epoch; END if there is no window."""
        return min((end if end > self._fired else end + self._lateness for end in self._state.at), default=END)

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._state.changed + self._changed.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return chain(self._state.changes(), self._changed.changes())

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._state.mark_committed()
        self._changed.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return chain(self._state.caches(), self._changed.caches())
