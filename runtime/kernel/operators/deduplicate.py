"""Deduplication: a message that comes again within a time is dropped."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from ....dsl.message import Headers
from ..state_backend import Change, StateBackend
from ..state_cache import WriteBackCache
from ..state_codec import MsgpackCodec
from ..stateful_operator import keyless
from ..time.bounds import END
from .state_entries import KeyScope, StateNamespace, under


@dataclass(slots=True)
class DeduplicateContext:
    """The environment of a deduplication.

    `identity` returns, as bytes, what `by=` returns for a value; None without `by=`. `emit` passes on a message: key
    bytes, value, timestamp, headers. `late` counts a late message. For the rest see `WindowContext`.
    """

    id: str
    backend: StateBackend
    empty: bool
    watermark: int
    within: int
    identity: Callable[[Any], bytes] | None
    emit: Callable[[bytes, Any, int, Headers], None]
    late: Callable[[], None]
    schedule: Callable[[int], None]


class DeduplicateOperator:
    """Passes on messages that are no duplicates. A duplicate has the key and the identity of a message that was passed
    on, and a time less than `within` apart from it. State: key and identity -> the times of the messages passed on.

    A message that is not late is at most `within` behind the watermark. So it can only be a duplicate of a message that
    is less than twice `within` behind the watermark, and an entry expires that long after its latest time.
    """

    def __init__(self, context: DeduplicateContext) -> None:
        self._context = context
        self._passed = context.watermark
        self._scope = KeyScope()
        namespace = StateNamespace(
            context.id, context.backend, context.empty, context.schedule, context.watermark, self._scope
        )
        self._life = 2 * context.within
        self._times = namespace.expiring("p", "", MsgpackCodec(tuple[int, ...]), self._life)
        self.add = self._adder()

    def _adder(self) -> Callable[[bytes | None, Any, int, Headers, int], None]:
        # A closure over locals: this runs for each message.
        context, scope, is_new = self._context, self._scope, self._is_new
        within, identity, emit = context.within, context.identity, context.emit

        def add(key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
            try:
                if key is None:
                    raise keyless()
                # After a restart a message can be read again after its input has ended.
                if not self._passed <= watermark < END:
                    watermark = self._passed
                entry = under(key, b"" if identity is None else identity(value))
                if timestamp + within < watermark:
                    context.late()
                elif is_new(entry, timestamp, watermark):
                    emit(key, value, timestamp, headers)
            finally:
                scope.undo_log = None

        return add

    def _is_new(self, entry: bytes, timestamp: int, watermark: int) -> bool:
        """Whether a message is no duplicate; if so, remember its time."""
        scope, times, within = self._scope, self._times, self._context.within
        scope.time = watermark
        before: tuple[int, ...] = times.get(entry) or ()
        if any(-within < timestamp - time < within for time in before):
            return False
        remembered = sorted((*(time for time in before if time + self._life > watermark), timestamp))
        scope.time = remembered[-1]  # the entry expires that long after its latest time
        times.put(entry, tuple(remembered))
        return True

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:  # noqa: ARG002 - any entry
        """Begin to note changes, and return a function that takes them back."""
        # A timer that was set stays: it fires without effect.
        return self._scope.begin_undo_log()

    def advance(self, watermark: int) -> bool:
        """Forget the messages that no later one can be a duplicate of."""
        # At the end of input nothing expires: a later run may read the message again.
        if watermark < END:
            for entry in self._times.expired(watermark):
                self._times.delete(entry)
            self._passed = max(self._passed, watermark)
        return True

    def next_due(self) -> int:
        """The watermark at which the next entry may expire, in ms since epoch."""
        return self._times.next_due()

    @property
    def changed(self) -> int:
        """About how many entries have changed since the last commit."""
        return self._times.changed

    def changes(self) -> Iterator[Change]:
        """The changes since the last commit, as bytes for the backend."""
        return self._times.changes()

    def mark_committed(self) -> None:
        """Take the changes as committed, so that their entries may be evicted."""
        self._times.mark_committed()

    def caches(self) -> Iterable[WriteBackCache]:
        """The caches that hold this state in memory."""
        return self._times.caches()
