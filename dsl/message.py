"""What flows: messages with a key, a value, a time and headers; windows of time, and the panes they emit."""

from typing import Generic, Literal, TypeVar

from msgspec import Struct

K_co = TypeVar("K_co", covariant=True)
V_co = TypeVar("V_co", covariant=True)
A_co = TypeVar("A_co", covariant=True)

Headers = tuple[tuple[str, bytes], ...]
"""Headers of a message: names may repeat, order is kept."""

Record = tuple[bytes | None, bytes | None, int, Headers]
"""A message as bytes: key, value, timestamp (event time, ms since epoch, UTC), headers."""


class Message(Struct, Generic[V_co], frozen=True, gc=False):
    """One message of a stream.

    `timestamp` is its event time in ms since epoch, UTC.
    `key` is the decoded key of a keyed stream, else the key's bytes, or None.
    Key, value and timestamp must be given: Python raises TypeError without them, for a message is made in C.

    >>> Message(None, "hello", 1_700_000_000_000).value
    'hello'
    """

    key: object
    value: V_co
    timestamp: int
    headers: Headers = ()


class Window(Struct, frozen=True, order=True, gc=False):
    """A span of event time: `start` is inside, `end` is not; both in ms since epoch.

    >>> Window(0, 60_000).end - Window(0, 60_000).start
    60000
    """

    start: int
    end: int


PaneKind = Literal["early", "on_time", "late"]


class Pane(Struct, Generic[K_co, A_co], frozen=True):
    """The result of one firing of a window for one key.

    `kind` is "on_time" for the firing by the watermark (or by the end of input), "early" and "late" for what is shown
    before and after that. `replaces` lists the windows of earlier panes that this pane's session takes the place of.
    A pane owns its value: a function that changes it in place changes no state. Several operators that read the panes
    of one window are given the same pane, as with every stream: see `MessageStream`.

    >>> pane = Pane("ann", Window(0, 60_000), 3)
    >>> f"{pane.key}: {pane.value} in {pane.window.end - pane.window.start} ms, {pane.kind}"
    'ann: 3 in 60000 ms, on_time'
    """

    key: K_co
    window: Window
    value: A_co
    kind: PaneKind = "on_time"
    replaces: tuple[Window, ...] = ()
