"""The verbs `produce` and `consume`: write records to a stream, and print its records."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import BinaryIO, Literal

import msgspec

from ....dsl.errors import PlanError, UsageError
from ....dsl.message import Record
from ....dsl.text import plural
from ....dsl.validation import explain
from ...files import ReadOptions, Render, ShownAs, json_of_bytes, shown, unobeyed
from ...launch import missing_stream
from ...systems.contract import ProducingSystem, System
from ...systems.reads import StreamEnd, follow, read_to_ends
from .load import Loaded, load

Show = Literal["records", "values"]

_encode = msgspec.json.Encoder().encode


def produce(stream: str, path: str, system: System, reading: ReadOptions, partitions: int | None) -> Loaded:
    """Append a file to a stream."""
    return load(system, stream, path, reading, partitions)


def summary_of(loaded: Loaded) -> str:
    """The result of `produce`, as a line of text."""
    text = f"{loaded.stream}: {plural(loaded.records, 'record')} in {plural(loaded.partitions, 'partition')}"
    if loaded.first_malformed is None:
        return text
    first = loaded.first_malformed
    return f"{text}, {plural(loaded.malformed, 'malformed line')} skipped; the first is line {first.line}: {first.why}"


def consume(
    stream: str,
    system: System,
    out: BinaryIO,
    *,
    from_offset: int | None,
    limit: int | None,
    until: StreamEnd,
    show: Show,
    shown_as: ShownAs,
) -> None:
    """Write the records of a stream as lines of JSON."""
    line = line_writer(stream, show, json_of_bytes(shown_as))
    records = _records(system, stream, from_offset, until)
    for partition, offset, record in islice(records, limit):
        out.write(unobeyed(line(partition, offset, record)) + b"\n")
        if until == "stopped":
            out.flush()
    out.flush()


def _records(
    system: System, stream: str, from_offset: int | None, until: StreamEnd
) -> Iterator[tuple[int, int, Record]]:
    admin = system.admin()
    existing = admin.streams()
    if stream not in existing:
        _refuse_kept(stream, system)
        raise PlanError(missing_stream(stream, existing, system, "the command line"))
    ends = admin.ends(stream)
    starts = [min(max(from_offset or 0, start), end) for start, end in zip(admin.starts(stream), ends, strict=True)]
    for batch in read_to_ends(system, stream, starts, ends) if until == "end" else follow(system, stream, starts):
        for offset, record in zip(batch.offsets, batch.records, strict=True):
            yield batch.partition, offset, record


def _refuse_kept(stream: str, system: System) -> None:
    """Refuse a stream of Fluvial's own where the system keeps none: to produce it would be no way to see it."""
    if not isinstance(system, ProducingSystem) and stream.endswith(("-checkpoints", "-coordinator", "-changelog")):
        wrong = f"there is no stream {stream!r} in {system.url}, which keeps checkpoints and state, but not in streams"
        remedy = "read tables with fluvial state, and see what is stored with fluvial check"
        raise PlanError(
            explain(wrong, "on Kafka a stream of Fluvial's own, elsewhere one of yours", remedy, "the command line")
        )


def line_writer(stream: str, show: Show, render: Render) -> Callable[[int, int, Record], bytes]:
    """The function that makes a line of a record: of its value alone, or of the whole record."""

    def value_line(partition: int, offset: int, record: Record) -> bytes:
        try:
            return render(record[1])
        except ValueError as error:  # msgspec.DecodeError is one
            wrong, where = f"the value is not JSON: {error}", f"stream {stream}, partition {partition}, offset {offset}"
            raise UsageError(
                explain(wrong, "values in JSON", "leave --format out, or write --format text", where)
            ) from None

    def record_line(partition: int, offset: int, record: Record) -> bytes:
        key, _, timestamp, headers = record
        whole = {
            "partition": partition,
            "offset": offset,
            "key": shown(key),
            "timestamp": timestamp,
            "headers": [[name, shown(data)] for name, data in headers],
            "value": msgspec.Raw(value_line(partition, offset, record)),
        }
        return _encode(whole)

    return value_line if show == "values" else record_line
