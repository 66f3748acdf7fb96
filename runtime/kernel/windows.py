"""What a windowed operator shares whatever its assigner: what it is made with, and how it emits panes."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from ...dsl.aggregates import Aggregate
from ...dsl.message import Headers, Pane, PaneKind, Window
from .state import Bytes, Change

Emit = Callable[[bytes, Pane[Any, Any], int, Headers], None]
"""Hands a pane on: key bytes, pane, timestamp."""

Panes = Callable[..., None]
"""Makes a pane and hands it on: key bytes, window, accumulator, kind, windows that it takes the place of."""


@dataclass(slots=True)
class Context:
    """What a windowed operator is made with.

    `emit` hands a pane on; `fail` takes the error of one that has no value; `late` takes a message that came too late;
    `rouse(time)` asks for `advance` to be called when the watermark reaches `time`; `firing(time)` says that what is
    due at `time` is about to fire.
    `watermark` is where it stood at the last commit: what was due by then has fired. `empty` says that nothing is kept
    in `below`.
    """

    id: str
    below: Bytes
    empty: bool
    watermark: int
    aggregate: Aggregate[Any, Any]
    state_type: Any
    decode_key: Callable[[bytes], Any]
    lateness: int
    accumulate: bool
    emit: Emit
    fail: Callable[[bytes, Pane[Any, Any], Exception], None]
    late: Callable[[bytes, Any, int, Headers], None]
    rouse: Callable[[int], None]
    firing: Callable[[int], None]

    def panes(self) -> Panes:
        """A function that makes a pane and hands it on: a closure over locals, for it may run for each message."""
        decode_key, result, emit, fail = self.decode_key, self.aggregate.result, self.emit, self.fail

        def pane(key: bytes, window: Window, value: Any, kind: PaneKind, replaces: tuple[Window, ...] = ()) -> None:
            name = decode_key(key)
            try:
                found = result(value)
            except Exception as error:
                # It is the pane's failure, also where a message has let it fire: that one is in the window.
                fail(key, Pane(name, window, None, kind, replaces), error)
            else:
                emit(key, Pane(name, window, found, kind, replaces), window.end - 1, ())

        return pane


class WindowOperator(Protocol):
    """A windowed operator of one task."""

    def add(self, key: bytes | None, value: Any, timestamp: int, headers: Headers, watermark: int) -> None:
        """Take a message in; `watermark` is the one by which it may be late."""
        ...

    def undo(self, key: bytes | None, timestamp: int) -> Callable[[], None]:
        """What takes back the `add` of a message with this key and timestamp, to be asked for before."""
        ...

    def advance(self, watermark: int) -> None:
        """Fire what is due, earliest first, and forget what is past its lateness."""
        ...

    def wake(self) -> int:
        """The watermark from which `advance` has something to do."""
        ...

    @property
    def changed(self) -> int:
        """How many values have changed since the last `settle`, about."""
        ...

    def changes(self) -> Iterator[Change]: ...

    def settle(self, room: int) -> int: ...


def keyless() -> TypeError:
    """The error of a message that nobody's state could take."""
    return TypeError("a message without key cannot be kept by key")
