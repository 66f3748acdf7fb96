"""The rows of DataFrames as messages, which pass through level 0 of a query.

A DataFrame is one producer, whatever the number of tasks that read it: it has one watermark, which moves between
batches.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext

from ....dsl.errors import PipelineError
from ....dsl.message import Record
from ....dsl.operators import Source
from ....dsl.serde import source_key_serde
from ....dsl.validation import explain
from ....planner.plan import Plan
from ...data_frames.bindings import Backfill, DataFrames
from ...kernel.code.source_code import times_reader
from ...process.interruptions import INTERRUPTIONS
from ...systems.contract import RecordBatch
from ...systems.provisioning import table_streams
from ..lowering.packaging import unpack
from ..lowering.shipped_plan import ShippedPlan
from ..rows import SPARK_SCHEMA, Row, arrow_batch
from ..worker.error_texts import failures_as_rows
from ..worker.outputs import Outputs
from ..worker.source_level import level_zero
from .input_columns import input_expressions
from .job_session import in_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_Batches = Iterable[pa.RecordBatch]


def _selected(session: "SparkSession", plan: Plan, source: Source, frames: DataFrames) -> "DataFrame":
    """The parts of messages in the rows of a DataFrame, in the session of the run. Raises PlanError where its columns
    do not fit the stream."""
    given = frames.inputs[source.stream]
    tables = table_streams(plan)
    expressions = input_expressions(source, given, timed=source.stream not in tables)
    rows = in_session(session, given.frame).selectExpr(*expressions.selected)
    span = _span(frames.backfill, source, tables)
    if span is None or source.timestamp is not None:
        return rows
    return rows.where(f"`time` IS NULL OR (`time` >= {span[0]} AND `time` < {span[1]})")


def _span(backfill: Backfill | None, source: Source, whole: Collection[str]) -> tuple[int, int] | None:
    """The times of the messages that a backfill reads; None for all. Tables are read whole: their rows have no part in
    time."""
    return None if backfill is None or source.bootstrap or source.stream in whole else backfill.span


def input_rows(
    session: "SparkSession",
    plan: Plan,
    stream: str,
    frames: DataFrames,
    shipped: ShippedPlan,
    outputs: Outputs,
    schema: str = SPARK_SCHEMA,
    made: Callable[[Sequence[Row]], pa.RecordBatch] = arrow_batch,
) -> "DataFrame":
    """The rows that level 0 makes of a DataFrame. `made` makes an Arrow batch of the `schema` of rows of a query."""
    rows = _selected(session, plan, _source(plan, stream), frames)
    return rows.mapInArrow(_through_level_zero(shipped, stream, outputs, made, frames.backfill), schema)


def _source(plan: Plan, stream: str) -> Source:
    return next(source for source in plan.pipeline.sources if source.stream == stream)


def _through_level_zero(
    shipped: ShippedPlan,
    stream: str,
    outputs: Outputs,
    made: Callable[[Sequence[Row]], pa.RecordBatch],
    backfill: Backfill | None,
) -> Callable[[_Batches], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that processes selected rows at level 0."""

    def read(batches: _Batches) -> Iterator[pa.RecordBatch]:
        return failures_as_rows(processed(batches), outputs, made)

    def processed(batches: _Batches) -> Iterator[pa.RecordBatch]:
        plan = unpack(shipped)[0].plan
        source = _source(plan, stream)
        span = _span(backfill, source, table_streams(plan))
        with outputs() as output:
            records = _record_batches(source, batches, span)
            yield from map(made, level_zero(shipped, stream, 0, records, output, task=_task()))

    return read


def _task() -> int:
    context = TaskContext.get()
    return 0 if context is None else context.partitionId()


def _record_batches(source: Source, batches: _Batches, span: tuple[int, int] | None) -> Iterator[RecordBatch]:
    encode = None if source.key is None else source_key_serde(source.key).encode
    in_span = None if span is None or source.timestamp is None else _by_own_time(source, span)
    first = 0
    for batch in batches:
        records = _records(batch, source, encode)
        if in_span is not None:
            records = list(filter(in_span, records))
        if records:
            yield RecordBatch(source.stream, 0, range(first, first + len(records)), records)
            first += len(records)


def _records(batch: pa.RecordBatch, source: Source, encode: Callable[[Any], bytes] | None) -> list[Record]:
    values, times = batch.column("value").to_pylist(), batch.column("time").to_pylist()
    if batch.column("time").null_count:
        wrong = f"a row of the DataFrame of stream {source.stream!r} has no time"
        remedy = "leave such rows out: frame.where('... IS NOT NULL')"
        raise PipelineError(explain(wrong, "a time in each row", remedy, source.origin))
    keys: list[bytes | None] = [None] * len(values)
    if encode is not None:
        keys = [None if key is None else encode(key) for key in batch.column("key").to_pylist()]
    return [(key, value, time, ()) for key, value, time in zip(keys, values, times, strict=True)]


def _by_own_time(source: Source, span: tuple[int, int]) -> Callable[[Record], bool]:
    """Whether a record is in a span of time, by the function of the stream. One whose time cannot be read is an error
    of that message, which the stage makes of it."""
    read, (first, behind) = times_reader(source), span

    def inside(record: Record) -> bool:
        key, value, time, _ = record
        try:
            return first <= read([key], [value], [time])[0] < behind
        except INTERRUPTIONS:
            raise
        except BaseException:
            return True

    return inside
