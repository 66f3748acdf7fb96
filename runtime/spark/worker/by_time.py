"""Messages in the order of their times, where their producers have none: a DataFrame's rows come to tasks as they lie.

Messages of the same time are in the order of their bytes. So the order does not depend on how Spark divided the rows.
"""

from collections.abc import Iterable, Iterator, Sequence

from ...kernel.code.source_code import ReadTimes
from ..rows import Messages

MOST = 10_000
"""Messages that are processed at a time."""


def sorted_by_time(
    blocks: Iterable[Messages], read_times: ReadTimes | None = None, most: int = MOST
) -> Iterator[Messages]:
    """The messages of one stream, by time, so many at a time. `read_times` finds times that the messages do not have
    themselves."""
    held = list(blocks)
    if not held:
        return
    messages = held[0] if len(held) == 1 else _joined(held)
    times = messages.times if read_times is None else read_times(messages.keys, messages.values, messages.times)
    keys, values = messages.keys, messages.values
    order = sorted(range(len(times)), key=lambda index: (times[index], by_bytes(keys[index], values[index])))
    for start in range(0, len(order), most):
        yield messages.select(order[start : start + most])


def by_bytes(key: bytes | None, value: bytes | None) -> tuple[bool, bytes, bool, bytes]:
    """The order of messages of one time, that of Spark: what is not there comes first."""
    return key is not None, key or b"", value is not None, value or b""


def _joined(held: Sequence[Messages]) -> Messages:
    headers = (
        [part.headers or [()] * len(part.positions) for part in held] if any(one.headers for one in held) else None
    )
    return Messages(
        held[0].stream,
        held[0].producer,
        [one for part in held for one in part.positions],
        [one for part in held for one in part.keys],
        [one for part in held for one in part.values],
        [one for part in held for one in part.times],
        None if headers is None else [one for part in headers for one in part],
    )
