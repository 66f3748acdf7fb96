"""The environment of a windowed operator, and how it emits panes."""

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from ....dsl.message import Headers, Pane, PaneKind, Window
from ....dsl.windows.aggregates import Aggregate
from ...process.interruptions import INTERRUPTIONS
from ..state_backend import StateBackend
from ..time.bounds import START
from ..value_copies import UNCHANGING, ValueSnapshot, of_any, of_growing, own_copy
from .fired_windows import FiredWindows

EmitPane = Callable[[bytes, Pane[Any, Any], int, Headers], None]
"""Passes on a pane: key bytes, pane, timestamp, headers."""

Panes = Callable[..., None]
"""Makes a pane and passes it on: key bytes, window, accumulator, kind, the windows that it replaces, its timestamp (by
default the last one in the window), and whether state keeps the accumulator. If it does, the pane gets a copy."""


@dataclass(slots=True)
class WindowContext:
    """The environment of a windowed operator.

    `emit` passes on a pane, `fail` takes the error of a pane that has no value, and `late` takes a late message.
    `schedule(time)` asks for a call of `advance` when the watermark reaches `time`. The operator calls `firing(time)`
    before it fires what is due at `time`. After each pane of a firing `pauses()` says whether the firing is to pause.

    `watermark` is that of the last commit: what was due by then has fired. `forgotten` is the end up to which windows
    were forgotten before their lateness was increased. `empty` says that `backend` holds no state of the operator.

    `keeps` says that windows which fire at the end of input stay for a later run. `fired` is what the operator has
    fired apart from what `watermark` tells.
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
    emit: EmitPane
    fail: Callable[[bytes, Pane[Any, Any], int, BaseException], None]
    late: Callable[[bytes, Any, int, Headers], None]
    schedule: Callable[[int], None]
    firing: Callable[[int], None]
    pauses: Callable[[], bool]
    forgotten: int = START
    keeps: bool = False
    fired: FiredWindows = field(default_factory=FiredWindows)

    @property
    def snapshot(self) -> ValueSnapshot:
        """How an accumulator is copied before it changes: the whole, or its length if the aggregate only appends."""
        return of_growing if self.aggregate.appends else of_any

    def snapshot_of(self, window: Any) -> Callable[[], Any]:
        """The snapshot of a record with an accumulator, whose other fields are replaced, and not changed in place."""
        record, accumulator = copy(window), self.snapshot(window.accumulator)

        def restore() -> Any:
            record.accumulator = accumulator()
            return record

        return restore

    def panes(self) -> Panes:
        """A function that makes a pane and passes it on. It is a closure over locals: it may run for each message."""
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
            name: Any = key
            at = window.end - 1 if timestamp is None else timestamp
            try:
                name = decode_key(key)  # a user's function too, if its Serde is
                # Copied before `result`: that is a user's function too, and may change its argument.
                pane_value = result(own_copy(value) if stays and type(value) not in UNCHANGING else value)
            except INTERRUPTIONS:
                raise
            except BaseException as error:
                # The pane has failed, not the message that made it fire: that message is in the window.
                fail(key, Pane(name, window, None, kind, replaces), at, error)
            else:
                emit(key, Pane(name, window, pane_value, kind, replaces), at, ())

        return pane
