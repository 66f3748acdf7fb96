"""Comparing what two runs wrote, as multisets, with a difference that can be read."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from fluvial.dsl.message import Record

DEAD_LETTERS = "-dead-letters"
REMOTE = "remote:"
"""What is written to remote tables is in streams of such names, and is compared like them."""
IN_ORDER = f"{REMOTE}in-order-"
"""Of these, also the last row of each key."""


class OutputsDiffer(AssertionError):
    """Two runs wrote different messages."""


def difference(actual: Mapping[str, Iterable[Record]], expected: Mapping[str, Iterable[Record]]) -> str:
    """What is missing and what is unexpected, stream by stream; empty if the two are the same.

    Of dead letters only the values count, for the rest is for people to read.
    """
    lines: list[str] = []
    for stream in sorted({*actual, *expected}):
        got, wanted = (counted(stream, side.get(stream, ())) for side in (actual, expected))
        if got == wanted:
            continue
        lines.append(f"{stream}: {got.total()} messages instead of {wanted.total()}")
        lines += [f"  missing     {_shown(message, times)}" for message, times in _sorted(wanted - got)]
        lines += [f"  unexpected  {_shown(message, times)}" for message, times in _sorted(got - wanted)]
        lines += [f"  the same    {(wanted & got).total()}"]
    return "\n".join(lines)


def assert_same(actual: Mapping[str, Iterable[Record]], expected: Mapping[str, Iterable[Record]]) -> None:
    """Fail, with the difference, unless both wrote the same messages; a stream without messages is as none."""
    found = difference(actual, expected)
    if found:
        raise OutputsDiffer(f"outputs differ\n{found}")
    assert _last_rows(actual) == _last_rows(expected)


def _last_rows(outputs: Mapping[str, Iterable[Record]]) -> dict[tuple[str, bytes | None], bytes | None]:
    """What is left in the remote tables whose rows come in order."""
    written = ((stream, record) for stream in outputs if stream.startswith(IN_ORDER) for record in outputs[stream])
    return {(stream, record[0]): record[1] for stream, record in written}


def without_repeats(outputs: Mapping[str, Iterable[Record]]) -> dict[str, list[Record]]:
    """The same, but that a row counts once which was written to a remote table in the same words again, as a crash lets
    happen; the last of them tells its place."""
    return {
        stream: list(dict.fromkeys(reversed(list(records))))[::-1] if stream.startswith(REMOTE) else list(records)
        for stream, records in outputs.items()
    }


def counted(stream: str, messages: Iterable[Record]) -> Counter[Any]:
    """What was written to a stream, as a multiset of what counts."""
    if stream.endswith(DEAD_LETTERS):
        return Counter(value for _, value, _, _ in messages)
    return Counter((key, value, timestamp, tuple(headers)) for key, value, timestamp, headers in messages)


def _sorted(counter: Counter[Any]) -> list[tuple[Any, int]]:
    return sorted(counter.items(), key=lambda item: (item[0][2] if isinstance(item[0], tuple) else 0, repr(item[0])))


def _shown(message: Any, times: int) -> str:
    repeated = f"  ({times} times)" if times > 1 else ""
    if not isinstance(message, tuple):
        return f"{message!r}{repeated}"
    key, value, timestamp, headers = message
    return f"{key!r}: {value!r} @{timestamp}{f' {headers!r}' if headers else ''}{repeated}"
