"""Levels behind a shuffle in a batch job: the messages of a key bucket come by time, and the state is in memory.

A bucket is processed in steps, as by batches of a query: after each step time has moved to the last message. So windows
fire, and their state goes, while the rows stream by. Nothing is late.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute
from msgspec import Struct

from ....dsl.message import Headers, Record
from ...kernel.code.source_code import times_reader
from ...kernel.time.bounds import START
from ...systems.provisioning import bootstrap_streams
from ..batch_times import BatchTimes, StreamTime
from ..lowering.packaging import PlanBundle, unpack
from ..lowering.shipped_plan import ShippedPlan
from ..rows import FRAMES, EndOfInput, Row, Wake, decode_messages, encode, messages_of
from .error_texts import failures_as_rows
from .inbox import Inbox
from .keyed_level import LevelTask
from .outputs import Outputs

SPARK_SCHEMA = "level int, bucket int, rank int, time bigint, key binary, value binary, block binary"
SORTED = ("bucket", "rank", "time", "key", "value")
"""The columns by which the rows of a task are sorted: messages of one time by their bytes, as in `by_time`."""
ARROW_SCHEMA = pa.schema(
    [
        ("level", pa.int32()),
        ("bucket", pa.int32()),
        ("rank", pa.int32()),
        ("time", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("block", pa.binary()),
    ]
)

_COMPUTE: Any = pyarrow.compute  # has no types

# With more, less of the state is gone before the next messages come; with fewer, each step's overhead counts.
STEP = 20_000
"""Messages of a bucket that are processed at a time."""

TimedRow = tuple[int, int, int, int, bytes | None, bytes | None, bytes]
"""A row of a batch job: level and label of the bucket; for a message 0 if it is of a bootstrap stream, which comes
first, its event time in ms since epoch, its key, its value, and the rest of it; else a block."""


class _Rest(Struct, array_like=True, frozen=True, gc=False):
    """What a message has besides key and value. `time` is its timestamp, from which its event time may be another."""

    stream: str
    position: int
    time: int
    headers: Headers


_decode_rest = msgspec.msgpack.Decoder(_Rest).decode
_END, _WAKE = encode(EndOfInput()), encode(Wake())
_NO_TIMES: Mapping[str, StreamTime] = MappingProxyType({})

_Batches = Iterable[pa.RecordBatch]


def timed_rows(bundle: PlanBundle, rows: Iterable[Row]) -> Iterator[TimedRow]:
    """Rows of a query as those of a batch job, with a row for each message that a later level reads."""
    sources = bundle.plan.pipeline.sources
    readers = {source.stream: times_reader(source) for source in sources if source.stream in bundle.levels.forwarded}
    first = bootstrap_streams(bundle.plan)
    for level, label, block in rows:
        if level >= FRAMES:
            yield level, label, 0, START, None, None, block
            continue
        messages = decode_messages(block)
        times: Sequence[int] = messages.times
        if messages.stream in readers:
            times = readers[messages.stream](messages.keys, messages.values, messages.times)
        rank = int(messages.stream not in first)
        for time, position, (key, value, stamp, headers) in zip(
            times, messages.positions, messages.records(), strict=True
        ):
            yield level, label, rank, time, key, value, encode(_Rest(messages.stream, position, stamp, headers))


def timed_batch(shipped: ShippedPlan) -> Callable[[Sequence[Row]], pa.RecordBatch]:
    """A function that makes an Arrow batch of a batch job of the rows of a query."""

    def made(rows: Sequence[Row]) -> pa.RecordBatch:
        timed = list(timed_rows(unpack(shipped)[0], rows))
        columns = zip(*timed, strict=True) if timed else [()] * len(ARROW_SCHEMA)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, ARROW_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)

    return made


@dataclass(frozen=True)
class JobTimes:
    """The times of a batch job: the processing time, and the last watermark of each stream. The latter is known only
    for plans with operators that emit something as time moves that they would not emit at the end of input."""

    clock: int
    last: Mapping[str, StreamTime] = field(default_factory=dict)


def batch_level(
    shipped: ShippedPlan, level: int, times: JobTimes, outputs: Outputs, step: int = STEP
) -> Callable[[_Batches], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that processes the rows of a level, sorted by bucket and time, and passes on those of
    later levels. A bucket is processed `step` messages at a time."""
    timed = timed_batch(shipped)

    def read(batches: _Batches) -> Iterator[pa.RecordBatch]:
        return failures_as_rows(processed(batches), outputs, timed)

    def processed(batches: _Batches) -> Iterator[pa.RecordBatch]:
        with LevelTask(shipped, level, BatchTimes(clock=times.clock), 0, outputs) as task:
            buckets = _Buckets(unpack(shipped)[0], level, times, step, task)
            for batch in batches:
                own = _COMPUTE.equal(batch.column("level"), level)
                yield batch.filter(_COMPUTE.invert(own))
                yield from map(timed, buckets.add(batch.filter(own)))
            yield from map(timed, buckets.end())

    return read


class _Buckets:
    """The buckets of one task of Spark's, one after the other."""

    def __init__(self, bundle: PlanBundle, level: int, times: JobTimes, step: int, task: LevelTask) -> None:
        self._bundle, self._job, self._most, self._task = bundle, times, step, task
        stages = map(bundle.plan.stage, bundle.levels.stages_at(level))
        self._streams = [stream for stage in stages for stream in stage.inputs]
        self._label: int | None = None
        self._blobs = _MemoryBlobs()
        self._messages: list[tuple[bytes | None, bytes | None, bytes]] = []
        self._watermark = START

    def add(self, batch: pa.RecordBatch) -> Iterator[list[Row]]:
        """Take rows, and process those that make a step."""
        columns = (batch.column(name).to_pylist() for name in ARROW_SCHEMA.names[1:])
        for label, rank, time, *message in zip(*columns, strict=True):
            if label != self._label:
                yield from self.end()
                self._label = label
            self._messages.append((*message,))
            if len(self._messages) >= self._most:
                # One less: later rows may have the same time, and would be late.
                yield from self._step(time - 1 if rank else START)

    def end(self) -> Iterator[list[Row]]:
        """Finish the last bucket, whose input has ended."""
        if self._label is None:
            return
        if self._job.last:
            yield from self._step(self._watermark, _WAKE, self._job.last)
        yield from self._step(self._watermark, _END)
        # Rows are sorted by bucket: no more come of this one, so its state goes.
        self._label, self._blobs, self._watermark = None, _MemoryBlobs(), START

    def _step(
        self, watermark: int, control: bytes = _WAKE, last: Mapping[str, StreamTime] = _NO_TIMES
    ) -> Iterator[list[Row]]:
        before, self._watermark = self._times(self._watermark), max(watermark, self._watermark)
        assert self._label is not None
        times = BatchTimes(before, self._times(self._watermark) | dict(last), self._job.clock)
        bucket = self._bundle.buckets.of_label[self._label]
        with Inbox([*self._taken(), control]) as inbox:
            yield from self._task.process(bucket, inbox, self._blobs, times)

    def _taken(self) -> Iterator[bytes]:
        """The messages that are held, as a block for each stream; none are held then."""
        by_stream: dict[str, list[tuple[int, Record]]] = {}
        for key, value, rest in self._messages:
            one = _decode_rest(rest)
            by_stream.setdefault(one.stream, []).append((one.position, (key, value, one.time, one.headers)))
        self._messages = []
        for stream, entries in by_stream.items():
            positions, records = zip(*entries, strict=True)
            yield encode(messages_of(stream, 0, positions, records))

    def _times(self, watermark: int) -> dict[str, StreamTime]:
        return {} if watermark <= START else dict.fromkeys(self._streams, (watermark, False))


class _MemoryBlobs:
    """The state of one bucket, encoded, in memory."""

    def __init__(self) -> None:
        self._blobs: dict[bytes, bytes] = {}

    def get(self, name: bytes) -> bytes | None:
        return self._blobs.get(name)

    def put(self, name: bytes, data: bytes) -> None:
        self._blobs[name] = data

    def remove(self, name: bytes) -> None:
        self._blobs.pop(name, None)
