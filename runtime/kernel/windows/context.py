"""What a windowed operator shares whatever its assigner: what it is made with, and how it emits panes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from ....dsl.aggregates import Aggregate
from ....dsl.message import Headers, Pane, PaneKind, Window
from ..state_cache import StateBackend
from ..time.bounds import START
from ..value_copies import UNCHANGING, own_copy

Emit = Callable[[bytes, Pane[Any, Any], int, Headers], None]
"""Hands a pane on: key bytes, pane, timestamp."""

T = TypeVar("T")

PIECE = 1000
"""Panes of a window that are made before those who take them have their turn."""

Panes = Callable[..., None]
"""Makes a pane and hands it on: key bytes, window, accumulator, kind, windows that it takes the place of, its
timestamp, where it is not the last one in the window, and whether state keeps the accumulator: a pane owns its value,
so it is given a copy then."""


@dataclass(slots=True)
class WindowContext:
    """What a windowed operator is made with.

    `emit` hands a pane on; `fail` takes the error of one that has no value; `late` takes a message that came too late;
    `schedule(time)` asks for `advance` to be called when the watermark reaches `time`; `firing(time)` says that what is
    due at `time` is about to fire; `hand_over_if_many()` that panes may be taken now, of which there may be many.
    `watermark` is where it stood at the last commit: what was due by then has fired. `forgotten` is the end up to which
    windows were forgotten under a smaller lateness. `empty` says that nothing is kept in `backend`.
    """

    id: str
    backend: StateBackend
    empty: bool
    watermark: int
    aggregate: Aggregate[Any, Any]
    state_type: Any
    decode_key: Callable[[bytes], Any]
    lateness: int
    accumulate: bool
    emit: Emit
    fail: Callable[[bytes, Pane[Any, Any], int, Exception], None]
    late: Callable[[bytes, Any, int, Headers], None]
    schedule: Callable[[int], None]
    firing: Callable[[int], None]
    hand_over_if_many: Callable[[], None]
    forgotten: int = START

    def in_pieces(self, items: Iterator[T]) -> Iterator[T]:
        """The same items; those who take what is made of them have their turn after each piece."""
        for number, item in enumerate(items, 1):
            yield item
            if number % PIECE == 0:
                self.hand_over_if_many()

    def panes(self) -> Panes:
        """A function that makes a pane and hands it on: a closure over locals, for it may run for each message."""
        decode_key, result, emit, fail = self.decode_key, self.aggregate.result, self.emit, self.fail

        def pane(
            key: bytes,
            window: Window,
            value: Any,
            kind: PaneKind,
            replaces: tuple[Window, ...] = (),
            timestamp: int | None = None,
            stays: bool = False,
        ) -> None:
            name = decode_key(key)
            at = window.end - 1 if timestamp is None else timestamp
            try:
                # The copy is what `result` is given: it is a user's function, too.
                pane_value = result(own_copy(value) if stays and type(value) not in UNCHANGING else value)
            except Exception as error:
                # It is the pane's failure, also where a message has let it fire: that one is in the window.
                fail(key, Pane(name, window, None, kind, replaces), at, error)
            else:
                emit(key, Pane(name, window, pane_value, kind, replaces), at, ())

        return pane
