"""Session windows that emit before or after their ends too, as their triggers say."""

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from ....dsl.message import Headers
from ....dsl.windows.triggers import Trigger
from ..stateful_operator import keyless
from ..time.bounds import END, START
from .context import WindowContext
from .sessions import SessionOperator, Span
from .triggers import due, mark_fired, merge_states, observe, start_anew

A = TypeVar("A")


class TriggeredSession(Span[A], Generic[A], array_like=True, gc=False):
    """A session with the state of its trigger. `pending` says that it holds late messages which no pane has yet, and
    `shown` is as in `SessionState`."""

    pending: bool = False
    seen: int = 0
    due_first: int = END
    due_last: int = END
    shown: bool = False


class TriggeredSessionOperator(SessionOperator):
    """Sessions of one gap. Before its end a session emits an early pane whenever `early` fires. After its end it emits
    a late pane whenever `late` fires, and at the end of its lateness one with the messages that `late` has not emitted.
    A session that a late message prolongs beyond the watermark emits early panes again."""

    span: ClassVar[Any] = TriggeredSession

    def __init__(self, context: WindowContext, gap: int, early: Trigger, late: Trigger) -> None:
        super().__init__(context, gap)
        self._early, self._late = early, late
        self._watermark = START

    def _adder(self) -> Callable[[bytes | None, Any, int, Headers, int], None]:
        spans, join = self._spans, self._join

        def add(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
            if key is None:
                raise keyless()
            join(key, spans(key), value, timestamp, headers, watermark)

        return add

    def _union(self, joined: list[Any], value: Any, timestamp: int, last: int) -> Any:
        late = last + self._gap + 1 <= self._fired
        like = [span for span in joined if (span.fired or span.pending) == late]
        united: Any = super()._union(joined, value, timestamp, last)
        if len(joined) != 1:
            merge_states(united, like)
        elif not like:
            start_anew(united)
        return united

    def _mark_fired(self, span: Any) -> None:
        super()._mark_fired(span)
        start_anew(span)

    def _after_message(self, key: bytes, span: Any, time: int, *, timed: bool) -> None:  # noqa: ARG002 - of triggers
        end = span.last + self._gap + 1
        span.pending = end <= self._fired
        # What is pending fires later than at the end; what has fired there, in a firing that paused, fires again.
        span.fired = False if span.pending or self._done.has(end, key) else None
        if observe(self._late if span.pending else self._early, span, time):
            self._trigger(key, span)
        if not span.fired:
            self._timers.set(min(due(span), self._limit(span)), key)

    def _limit(self, span: Any) -> int:
        end = super()._limit(span)
        return end + self._context.lateness if span.pending else end

    def _trigger(self, key: bytes, span: Any) -> None:
        if span.pending:
            mark_fired(self._late, span)
            self._fire(key, span, "late")
            return
        mark_fired(self._early, span)
        if span.held:
            self._emit(key, span, "early")

    def advance(self, watermark: int) -> bool:
        """Fire the triggers and sessions that are due, and note the watermark by which a pane is early or late."""
        self._watermark = watermark
        return super().advance(watermark)

    def _show(self, key: bytes, span: Any) -> None:
        start_anew(span)
        if span.pending:
            self._fire(key, span, "late")
        else:
            super()._show(key, span)

    def _fire_due(self, key: bytes, time: int) -> None:
        self._move_to(time)
        spans: list[Any] = self._spans(key)
        changed = False
        for span in spans:
            if span.fired:
                continue
            limit = self._limit(span)
            if limit <= time:
                start_anew(span)
                if span.pending:
                    self._fire(key, span, "late")
                    changed = True
                else:
                    self._fire_at_end(key, span, spans)
            elif due(span) <= time and limit > self._watermark:
                self._trigger(key, span)
                changed = True
            if not span.fired:
                limit = self._limit(span)
                self._timers.set(min(due(span), limit) if due(span) > time else limit, key)
        if changed:
            self._keys.cache.fresh[key] = spans
