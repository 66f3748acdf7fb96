"""What a message in front of a call comes from, in terms that are the same after a crash: a record, or a pane."""

from collections.abc import Collection
from typing import Any, NamedTuple

from ....dsl.message import Pane
from .in_flight import InFlightMessage


class RecordOrigin(NamedTuple):
    """A record, by its stream, partition and offset: these stay when it is read again."""

    stream: str
    partition: int
    offset: int


class PaneOrigin(NamedTuple):
    """An on-time pane of a window; `run` is the run whose end of input has fired it, empty if none has."""

    window: str
    key: Any
    start: int
    end: int
    run: str


def origin_of(
    message: InFlightMessage, inputs: Collection[str], windows: Collection[str], run: str | None
) -> RecordOrigin | PaneOrigin | None:
    """What a message comes from, if it is a record of these inputs or an on-time pane of these windows; else None.

    A window that the end of input fires may fire again in the next run: `run` is this one, empty if no window does,
    None if its name is not known."""
    where = message.where
    if len(where) == 2 and message.queue.start in inputs:
        batch, index = where
        return RecordOrigin(batch.stream, batch.partition, batch.offsets[index])
    if len(where) == 4 and where[0] in windows:
        window, key, pane, _ = where
        fired_in = run if message.at_end else ""
        if isinstance(pane, Pane) and pane.kind == "on_time" and fired_in is not None:
            return PaneOrigin(window, key, pane.window.start, pane.window.end, fired_in)
    return None
