"""What Spark's connector reads from Kafka, on its way through level 0.

The connector gives a task the offsets of one partition, in their order; the task brings them through level 0 at once.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, repeat
from operator import attrgetter

import msgspec
import pyarrow as pa
from msgspec import Struct

from ....dsl.message import Record
from ...systems.contract import RecordBatch
from ...systems.kafka.records import record_of
from ..lowering.packaging import ShippedPlan
from ..rows import arrow_batch
from ..worker.outputs import Outputs
from ..worker.source_level import level_zero

_COLUMNS = (
    "key",
    "value",
    "partition",
    "offset",
    "unix_millis(timestamp) AS time",
    "if(headers IS NULL, NULL, to_json(headers)) AS headers",
)
"""As a timestamp, the time would take several times as long as all the rest. So would headers as a list, though there
be none: Spark sees after each row whether it has enough for a batch, and for that it goes through all lists that it has
so far. To ask for null first is faster than to have `to_json` find out."""


def columns(streams: Sequence[str]) -> list[str]:
    """What of the connector's columns goes to Python. A stream is named by its place among the `streams` that are
    read."""
    places = " ".join(f"WHEN '{stream}' THEN {place}" for place, stream in enumerate(streams))
    return [*_COLUMNS, "0 AS stream" if len(streams) == 1 else f"CASE topic {places} END AS stream"]


class _Header(Struct, frozen=True, gc=False):
    """As Spark writes it; bytes are base64 then, and a value that is not there is left out."""

    key: str
    value: bytes | None = None


_headers = msgspec.json.Decoder(list[_Header]).decode


def through_level_zero(
    shipped: ShippedPlan, streams: Sequence[str], outputs: Outputs
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow`: from `columns` to rows."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = (batch_of(batch, streams) for batch in batches if batch.num_rows)
        with outputs() as output:
            for (stream, partition), part in groupby(found, attrgetter("stream", "partition")):
                yield from map(arrow_batch, level_zero(shipped, stream, partition, part, output))

    return read


def batch_of(found: pa.RecordBatch, streams: Sequence[str]) -> RecordBatch:
    """Records of one partition, of which there is at least one."""
    keys, values, offsets, times = (found.column(name).to_pylist() for name in ("key", "value", "offset", "time"))
    headers = found.column("headers")
    records: list[Record] = (
        list(zip(keys, values, times, repeat(())))
        if headers.null_count == len(headers)
        else [_record(*told) for told in zip(keys, values, times, headers.to_pylist(), strict=True)]
    )
    first, behind = offsets[0], offsets[-1] + 1
    positions = range(first, behind) if behind - first == len(offsets) else offsets
    stream: int = found.column("stream")[0].as_py()
    partition: int = found.column("partition")[0].as_py()
    return RecordBatch(streams[stream], partition, positions, records)


def _record(key: bytes | None, value: bytes | None, time: int, headers: str | None) -> Record:
    found = () if headers is None else _headers(headers)
    return record_of(key, value, time, ((header.key, header.value) for header in found))
