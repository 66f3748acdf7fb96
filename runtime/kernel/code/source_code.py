"""The code that decodes a record of a source, checks its key and reads its timestamp. The local engine and Spark's
level 0 share it as text, since it runs for each record."""

from collections.abc import Callable, Iterable
from typing import Any

from ....dsl.operators import Source
from ....dsl.serde import source_key_serde, value_serde
from ..time.bounds import EARLIEST, LATEST, wrong_time
from .source_text import SourceText, compiled

ReadTimes = Callable[[Iterable[bytes | None], Iterable[bytes | None], Iterable[int]], list[int]]
"""Returns the times of records, given their keys, their values, and the timestamps that the system stores."""


def write_source(text: SourceText, depth: int, source: Source, number: int, *, checked: bool) -> None:
    """Add the code for a record in the variables `k`, `v` and `t`: it decodes the value into `v0`, and sets `t` to the
    timestamp of the message. `number` distinguishes the names of this source from those of others. `checked` says that
    the timestamp was checked before."""
    text.add(depth, f"v0 = None if v is None else decode_{number}(v)", source.id)
    if source.key is not None and source.key is not bytes:
        # Keys stay bytes, and are decoded only where a function uses them. So a wrong key is refused here.
        quick = " and not k.isascii()" if source.key is str else ""
        text.add(depth, f"if k is not None{quick}:", source.id)
        text.add(depth + 1, f"key_of_{number}(k)", source.id)
    if source.timestamp is not None:
        text.add(depth, f"t = timestamp_{number}(v0)", source.id)
        text.add(depth, "if t.__class__ is not int:", source.id)
        text.add(depth + 1, "raise wrong_time(t)", source.id)
    if not checked:
        # One message with the timestamp END would end the input, in this run and all later ones.
        text.add(depth, f"if not {EARLIEST} <= t <= {LATEST}:", source.id)
        text.add(depth + 1, "raise wrong_time(t)", source.id)


def source_names(source: Source, number: int) -> dict[str, Any]:
    """The objects that this code uses, by name."""
    return {
        f"decode_{number}": value_serde(source.value).decode,
        f"key_of_{number}": None if source.key is None else source_key_serde(source.key).decode,
        f"timestamp_{number}": source.timestamp,
        "wrong_time": wrong_time,
    }


def times_reader(source: Source) -> ReadTimes:
    """A function that returns the times of records of a source. It decodes the records, and raises the error of one
    that fails: a failed record must not advance the watermark."""
    text = SourceText()
    text.add(1, "def read_times(keys, values, times):")
    text.add(2, "read = []")
    text.add(2, "for k, v, t in zip(keys, values, times):")
    write_source(text, 3, source, 0, checked=False)
    text.add(3, "read.append(t)")
    text.add(2, "return read")
    names = source_names(source, 0)
    exec(compiled(text, source.stream), names)
    read_times: ReadTimes = names["read_times"]
    return read_times
