"""Session windows that fire when triggers say so too."""

from collections.abc import Callable
from typing import Any, ClassVar, Generic, TypeVar

from ....dsl.message import Headers
from ....dsl.triggers import Trigger
from ..stateful_operator import keyless
from ..time.bounds import END, START
from .context import WindowContext
from .sessions import SessionOperator, SessionState
from .triggers import begin, due, has_fired, see, unite

A = TypeVar("A")


class TriggeredSession(SessionState[A], Generic[A], array_like=True, gc=False):
    """A session, and what its trigger has seen; `pending` says that something came late and is not shown yet."""

    pending: bool = False
    seen: int = 0
    due_first: int = END
    due_last: int = END


class TriggeredSessionOperator(SessionOperator):
    """Sessions of one gap. Before its end a session shows early panes, when `early` fires; from then on late ones, when
    `late` does, and at the last what `late` has left. A session that a late message makes go on is early again."""

    span: ClassVar[Any] = TriggeredSession

    def __init__(self, context: WindowContext, gap: int, early: Trigger, late: Trigger) -> None:
        super().__init__(context, gap)
        self._early, self._late = early, late
        self._watermark = START

    def _adder(self) -> Callable[[bytes | None, Any, int, Headers, int], None]:
        fresh, join = self._keys.cache.fresh, self._join

        def add(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
            if key is None:
                raise keyless()
            join(key, fresh[key], value, timestamp, headers, watermark)

        return add

    def _union(self, joined: list[Any], value: Any, timestamp: int, last: int) -> Any:
        late = last + self._gap + 1 <= self._fired
        like = [span for span in joined if (span.fired or span.pending) == late]
        united: Any = super()._union(joined, value, timestamp, last)
        if len(joined) != 1:
            unite(united, like)
        elif not like:
            begin(united)
        return united

    def _came(self, key: bytes, span: Any, time: int, *, timed: bool) -> None:  # noqa: ARG002 - there is more to time
        span.pending = span.last + self._gap + 1 <= self._fired
        if see(self._late if span.pending else self._early, span, time):
            self._trigger(key, span)
        if not span.fired:
            self._timers.set(min(due(span), self._limit(span)), key)

    def _limit(self, span: Any) -> int:
        """When a session fires whatever its trigger says."""
        end: int = span.last + self._gap + 1
        return end + self._context.lateness if span.pending else end

    def _trigger(self, key: bytes, span: Any) -> None:
        if span.pending:
            has_fired(self._late, span)
            self._fire(key, span, "late")
            return
        has_fired(self._early, span)
        if span.held:
            self._show(key, span, "early")

    def advance(self, watermark: int) -> None:
        self._watermark = watermark
        super().advance(watermark)

    def _fire_due(self, key: bytes, time: int) -> None:
        self._move_to(time)
        fresh = self._keys.cache.fresh
        spans: list[Any] = fresh[key]
        changed = False
        for span in spans:
            if span.fired:
                continue
            limit = self._limit(span)
            if limit <= time:
                kind = "late" if span.pending else "on_time"
                begin(span)
                self._fire(key, span, kind)  # type: ignore[arg-type]
                changed = True
            elif due(span) <= time and limit > self._watermark:
                self._trigger(key, span)
                changed = True
            if not span.fired:
                limit = self._limit(span)
                self._timers.set(min(due(span), limit) if due(span) > time else limit, key)
        if changed:
            fresh[key] = spans
