"""One windowed operator on the oracle: messages of keys and times go in, panes come out."""

from datetime import timedelta
from typing import Any

import msgspec

from fluvial.dsl import Aggregate, Pane, Pipeline, Trigger, after, collect, unbounded
from fluvial.dsl.message import Record
from oracle.interpreter import Outputs, run_oracle
from oracle.windows import WITHOUT_END

Sent = tuple[str, int]
"""A message: its key and timestamp. Its value is its number among all, from 1."""


def ms(number: int) -> timedelta:
    return timedelta(milliseconds=number)


def first(number: int) -> Trigger:
    return after(first=ms(number))


def last(number: int) -> Trigger:
    return after(last=ms(number))


def windowed(
    sent: list[Sent], assigner: Any, made: Aggregate[Any, Any] | None = None, *, out_of_order: int = 0, **options: Any
) -> Outputs:
    """One keyed stream of ints, one window, its panes in `panes`."""
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", value=int, key=str, out_of_order=ms(out_of_order))
    numbers.window(assigner, made or collect(), id="w", **options).send_to("panes")
    return run_oracle(pipeline, {"in": [records(sent)]})


def records(sent: list[Sent]) -> list[Record]:
    return [(key.encode(), str(number).encode(), time, ()) for number, (key, time) in enumerate(sent, 1)]


def panes(outputs: Outputs) -> list[tuple[int, Pane[str, Any]]]:
    """The panes of every key but "z", as they were written, with their timestamps."""
    found = [
        (message.timestamp, msgspec.json.decode(message.value or b"", type=Pane[str, Any]))
        for message in outputs.get("panes", [])
        if message.key != b"z"
    ]
    assert all(pane.window == WITHOUT_END or time == pane.window.end - 1 for time, pane in found)
    return found


def shown(*args: Any, **options: Any) -> list[tuple[str, Any]]:
    """Kind and value of each pane."""
    return [(pane.kind, pane.value) for _, pane in panes(windowed(*args, **options))]


def by_window(*args: Any, **options: Any) -> list[tuple[tuple[int, int], str, Any]]:
    """Window, kind and value of each pane."""
    found = panes(windowed(*args, **options))
    return [((pane.window.start, pane.window.end), pane.kind, pane.value) for _, pane in found]


def replacing(*args: Any, **options: Any) -> list[tuple[tuple[int, int], str, Any, list[tuple[int, int]]]]:
    """Window, kind and value of each pane, and what it replaces."""
    found = panes(windowed(*args, **options))
    return [
        (
            (pane.window.start, pane.window.end),
            pane.kind,
            pane.value,
            [(past.start, past.end) for past in pane.replaces],
        )
        for _, pane in found
    ]


def by_key(*args: Any, **options: Any) -> list[tuple[str, int, str, Any]]:
    """Key, start of window, kind and value of each pane."""
    found = panes(windowed(*args, **options))
    return [(pane.key, pane.window.start, pane.kind, pane.value) for _, pane in found]


def unending(*args: Any, **options: Any) -> list[tuple[int, str, Any]]:
    """Timestamp, kind and value of each pane of a window without end."""
    found = panes(windowed(args[0], unbounded(), *args[1:], **options))
    assert {pane.window for _, pane in found} <= {WITHOUT_END}
    return [(time, pane.kind, pane.value) for time, pane in found]
