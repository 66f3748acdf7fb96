"""Start points: where the reading of a partition is to begin, and the offsets that they stand for."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from typing import Literal, cast

from ...dsl.errors import PlanError, UsageError
from ...dsl.validation import explain
from .contract import ProducingSystem, StreamPartition, System
from .reads import read_to_ends

StartPoint = Literal["earliest", "latest"] | datetime | int
"""Where reading begins: at the first record that is there, behind the last one, at the first record whose timestamp is
not before a time, or at an offset."""

_ENDS: Mapping[str, Literal["earliest", "latest"]] = {"earliest": "earliest", "latest": "latest"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FORMS = '"earliest", "latest", a datetime with a time zone, or an offset, 0 or more'


def parsed_start(text: str) -> StartPoint:
    """The start point that a text names. Raises ValueError for any other text.

    >>> parsed_start("latest"), parsed_start("120"), parsed_start("2026-03-01T12:00:00Z")
    ('latest', 120, datetime.datetime(2026, 3, 1, 12, 0, tzinfo=datetime.timezone.utc))
    """
    if text in _ENDS:
        return _ENDS[text]
    if text.isdecimal():
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        time = None
    if time is None or time.tzinfo is None:
        raise ValueError("earliest, latest, an offset, or a time with a time zone, such as 2026-03-01T12:00:00Z")
    return time


def offsets_of(
    system: System, points: Mapping[str, StartPoint], partitions: Mapping[str, int]
) -> dict[StreamPartition, int]:
    """The offset of each partition that start points name, by `STREAM` for all partitions of a stream, or by
    `STREAM/PARTITION`, which beats it. `partitions` are the partition counts of the streams.

    Raises UsageError for another name or start point, and for an offset that its partition does not have.

    >>> from fluvial.runtime.systems.memory import MemorySystem
    >>> memory = MemorySystem()
    >>> memory.admin().create("clicks", 2)
    >>> offsets_of(memory, {"clicks": "latest", "clicks/1": 0}, {"clicks": 2})
    {('clicks', 0): 0, ('clicks', 1): 0}
    """
    by_partition: dict[StreamPartition, int] = {}
    for name, point in sorted(points.items()):  # "clicks" comes before "clicks/1"
        stream, only = _named(name, partitions)
        checked = _checked(name, point, one=only is not None or partitions[stream] == 1)
        offsets = _offsets(system, stream, checked)
        for number in range(partitions[stream]) if only is None else [only]:
            if isinstance(checked, int):
                check_offset(system, (stream, number), checked)
            by_partition[stream, number] = offsets[number]
    return dict(sorted(by_partition.items()))


def check_offset(system: System, partition: StreamPartition, offset: int) -> None:
    """Raise UsageError for an offset that a partition does not have."""
    stream, number = partition
    start, end = system.admin().starts(stream)[number], system.admin().ends(stream)[number]
    if not start <= offset <= end:
        wrong = f"offset {offset} is outside of stream {stream!r}, partition {number}"
        raise UsageError(explain(wrong, f"an offset from {start} to {end}", "name one of these, or a time"))


def _named(name: str, partitions: Mapping[str, int]) -> tuple[str, int | None]:
    stream, divided, number = name.partition("/")
    if stream not in partitions:
        expected = f"one of {', '.join(sorted(partitions)) or 'none'}"
        raise UsageError(explain(f"there is no input {stream!r} whose offset can be set", expected))
    if not divided:
        return stream, None
    if not number.isdecimal() or int(number) >= partitions[stream]:
        wrong, last = f"stream {stream!r} has no partition {number!r}", partitions[stream] - 1
        raise UsageError(explain(wrong, f"a partition from 0 to {last}", f"write {stream}/{last}"))
    return stream, int(number)


def _checked(name: str, point: object, *, one: bool) -> StartPoint:
    if isinstance(point, int) and not isinstance(point, bool) and point >= 0:
        if not one:
            wrong, remedy = f"offset {point} for all partitions of {name!r}", f"write {name}/0, and so on"
            raise UsageError(explain(wrong, "an offset for each partition", remedy))
        return point
    if point in ("earliest", "latest") or (isinstance(point, datetime) and point.tzinfo is not None):
        return cast("StartPoint", point)
    raise UsageError(explain(f"start point {point!r} of {name!r}", _FORMS))


def _offsets(system: System, stream: str, point: StartPoint) -> Sequence[int]:
    """The offset of a start point in each partition of a stream."""
    admin = system.admin()
    if admin.partitions(stream) is None:
        wrong = f"there is no stream {stream!r} in {system.url}"
        raise PlanError(explain(wrong, "a stream that exists", "create it first, or correct --system"))
    if isinstance(point, datetime):
        return _since(system, stream, max(0, (point - _EPOCH) // timedelta(milliseconds=1)))
    if isinstance(point, int):
        return [point] * len(admin.starts(stream))
    return admin.starts(stream) if point == "earliest" else admin.ends(stream)


def _since(system: System, stream: str, timestamp: int) -> Sequence[int]:
    """The offset of the first record of each partition that has this timestamp, in ms since epoch, or a later one; its
    end where there is none."""
    if isinstance(system, ProducingSystem):
        return system.admin().offsets.since(stream, timestamp)
    starts, ends = system.admin().starts(stream), system.admin().ends(stream)
    firsts = list(ends)
    for partition, start in enumerate(starts):
        froms = [start if one == partition else end for one, end in enumerate(ends)]
        with closing(read_to_ends(system, stream, froms, ends)) as batches:
            times = (
                (offset, record[2])
                for batch in batches
                for offset, record in zip(batch.offsets, batch.records, strict=True)
            )
            firsts[partition] = next((offset for offset, time in times if time >= timestamp), ends[partition])
    return firsts
