"""How a record of a source is taken in: its value decoded, its key checked, its time told. One text of code for all who
do so, for it runs for each record."""

from collections.abc import Callable, Iterable
from typing import Any

from ....dsl.operators import Source
from ....dsl.serde import source_key_serde, value_serde
from ..time.bounds import EARLIEST, LATEST, wrong_time
from .source_text import SourceText, compiled

ReadTimes = Callable[[Iterable[bytes | None], Iterable[bytes | None], Iterable[int]], list[int]]
"""Tells the times of records by their keys, their values and the times that they were written with."""


def write_source(text: SourceText, depth: int, source: Source, number: int, *, checked: bool) -> None:
    """Add the code that takes in a record of the variables `k`, `v` and `t`: it decodes the value into `v0`, and sets
    `t` to the time of the message. `number` tells the names of this source from others'; `checked` says that the time
    has been looked at before."""
    text.add(depth, f"v0 = None if v is None else decode_{number}(v)", source.id)
    if source.key is not None and source.key is not bytes:
        # Further on keys are bytes, and only decoded where a function sees them: what is no key is refused here.
        quick = " and not k.isascii()" if source.key is str else ""
        text.add(depth, f"if k is not None{quick}:", source.id)
        text.add(depth + 1, f"key_of_{number}(k)", source.id)
    if source.timestamp is not None:
        text.add(depth, f"t = timestamp_{number}(v0)", source.id)
        text.add(depth, "if t.__class__ is not int:", source.id)
        text.add(depth + 1, "raise wrong_time(t)", source.id)
    if not checked:
        # One message from the end of time would end the input, in this run and all later ones.
        text.add(depth, f"if not {EARLIEST} <= t <= {LATEST}:", source.id)
        text.add(depth + 1, "raise wrong_time(t)", source.id)


def source_names(source: Source, number: int) -> dict[str, Any]:
    """What that code calls, by the names that it uses."""
    return {
        f"decode_{number}": value_serde(source.value).decode,
        f"key_of_{number}": None if source.key is None else source_key_serde(source.key).decode,
        f"timestamp_{number}": source.timestamp,
        "wrong_time": wrong_time,
    }


def times_reader(source: Source) -> ReadTimes:
    """A function that tells the times of records of a source. It raises what a record fails with, where that is decoded
    too: one that fails must not move time."""
    text = SourceText()
    text.add(1, "def read_times(keys, values, times):")
    text.add(2, "told = []")
    text.add(2, "for k, v, t in zip(keys, values, times):")
    write_source(text, 3, source, 0, checked=False)
    text.add(3, "told.append(t)")
    text.add(2, "return told")
    names = source_names(source, 0)
    exec(compiled(text, source.stream), names)
    read_times: ReadTimes = names["read_times"]
    return read_times
