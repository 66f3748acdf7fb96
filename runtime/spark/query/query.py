"""Prepares and starts a query of Spark: sources, level 0, the levels behind shuffles, the sink."""

import hashlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ....dsl.errors import SystemProblem
from ....dsl.validation import explain
from ....planner.plan import Plan, PlannedStage
from ....planner.settings import Settings
from ...data_frames.bindings import NO_DATA_FRAMES, DataFrames
from ...kernel.state_cache import Size
from ...preflight.state_compatibility import reset_command
from ...process.clock import wall_clock
from ...state.checkpoint_path import CheckpointPath
from ...systems.contract import System
from ...systems.provisioning import record_limits, table_streams
from ..atomic_file import read, write
from ..batch_times import send_times
from ..hadoop_path import HadoopPath
from ..key_buckets import default_count
from ..lowering.levels import most_tasks
from ..lowering.lowering import levels, without_order
from ..lowering.output_columns import OutputColumns
from ..lowering.packaging import PlanBundle, add_shipped_plan, pack
from ..lowering.query_plan import QueryPlan
from ..rows import SPARK_SCHEMA
from ..worker.level_processor import LevelProcessor
from .batch_requests import BatchRequests
from .batch_sizing import BatchSizer
from .bucket_split import begin_split, check_split, end_split, first_state, split_source
from .checkpoint_log import PLANNED, SHUFFLE_PARTITIONS, batch_numbers
from .checkpoint_record import IDENTITY, QueryCheckpoint, find_checkpoint, group_name, group_of, wanted_record
from .connection import BatchSink, Connection, StopAt
from .input_offsets import input_ends, input_starts
from .observed_metrics import observed
from .query_status import QueryStatus
from .query_times import QueryTimes, TimesRecord, first_record
from .repartitioning import check_tasks, tasks_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def prepare(
    plan: Plan,
    stages: list[PlannedStage],
    connection: Connection,
    session: SparkSession,
    settings: Settings,
    root: CheckpointPath,
    frames: DataFrames = NO_DATA_FRAMES,
    columns: Mapping[str, OutputColumns] = MappingProxyType({}),
) -> QueryPlan:
    """Make some stages of a plan ready to start as a query: find their levels, the query's checkpoint and its start
    offsets, and ship the plan. The DataFrames in `frames` are no streams of the system; `columns` are those of outputs.

    Raises PlanError if Spark cannot continue the query's checkpoint.
    """
    cores = session.sparkContext.defaultParallelism
    checkpoint = _checkpoint(plan, stages, connection, settings, root, cores, may_grow=not frames.inputs)
    folder, record = checkpoint.folder, checkpoint.record
    assert record is not None
    key_buckets, query_levels = record.key_buckets, levels(plan, stages, record.buckets)
    check_tasks(settings.spark_shuffle_partitions, key_buckets, plan.pipeline.origin)
    # Messages between stages stay in the query, which takes any.
    limits = record_limits(frames.system_part(plan), connection.system.admin(), without="intermediate")
    by_time = without_order(plan, query_levels, frames.inputs)
    bundle = PlanBundle(
        plan,
        query_levels,
        key_buckets,
        Size(settings.cached_entries, settings.cached_bytes),
        record.resets,
        not settings.forget_at_end,
        limits,
        settings.stall_timeout,
        columns,
        by_time,
        without_offsets=frozenset(frames.inputs),
        tasks=most_tasks(plan, query_levels, settings.spark_shuffle_partitions or key_buckets.partitions(cores)),
    )
    shipped = add_shipped_plan(pack(bundle), session)
    names = [name for stage in stages for name in stage.inputs]
    sources = tuple(name for name in names if plan.stream(name).kind == "source" and not frames.has(name))
    starts = _starts(folder, sources, plan, connection.system, settings)
    # By the checkpoint, not by the pipeline: after a reset, batches are numbered from 0 again, and must not pass for
    # those of before.
    group = group_name(plan, _identity(folder))
    once, ids = settings.guarantee == "exactly_once", settings.spark_message_ids
    split = split_source(plan, stages, checkpoint)
    run = _begin_run(folder) if isinstance(folder, HadoopPath) else ""
    return QueryPlan(plan, query_levels, key_buckets, shipped, folder, group, sources, starts, once, ids, split, run)


def _checkpoint(
    plan: Plan,
    stages: list[PlannedStage],
    connection: Connection,
    settings: Settings,
    root: CheckpointPath,
    cores: int,
    *,
    may_grow: bool,
) -> QueryCheckpoint:
    """The checkpoint that a query goes on from: a new one where its buckets are to be split, if they `may_grow`."""
    buckets, reset = settings.spark_buckets, reset_command(plan, connection.system, settings, "spark")
    wanted = wanted_record(plan, stages, settings, default_count(cores))
    checkpoint = find_checkpoint(plan, wanted, buckets, root, reset, may_grow=may_grow)
    return begin_split(plan, end_split(plan, checkpoint, connection), buckets, connection)


def of_one_run(queries: Sequence[QueryPlan]) -> list[QueryPlan]:
    """Queries that tell the workers that they belong together: one does not close what another has opened."""
    run = hashlib.sha256("".join(query.shipped.digest for query in queries).encode()).hexdigest()
    return [replace(query, shipped=replace(query.shipped, run=run)) for query in queries]


def check_own(query: QueryPlan) -> None:
    """Raise SystemProblem if the checkpoint of a query that runs was removed, or is another one by now, or another run
    has begun with it. Where no lock keeps a reset or a run away, a query would go on and write beside it."""
    try:
        group = group_of(query.plan, query.folder)
    except FileNotFoundError:
        group = None
    if group != query.group:
        wrong = (
            f"the checkpoint in {query.folder} of pipeline {query.plan.name!r} is not the one that this run has begun "
        )
        wrong += "with: it was removed or replaced meanwhile"
        remedy = "stop a run before its checkpoint is reset, moved or put back; then reset it again, and start anew"
        expected = "a checkpoint that nobody touches while its query runs"
        raise SystemProblem(explain(wrong, expected, remedy, query.plan.pipeline.origin))
    if query.run and (query.folder / _RUN).read_text(errors="replace") != query.run:
        wrong = f"another run of pipeline {query.plan.name!r} has begun with the checkpoint in {query.folder}"
        remedy = "let the later run go on, which is not disturbed; or stop it, and start this one again"
        raise SystemProblem(explain(wrong, "one run of a pipeline at a time", remedy, query.plan.pipeline.origin))


_RUN = "run"
"""The file with the unique name of the last run, where no lock keeps a second one away."""


def _begin_run(folder: CheckpointPath) -> str:
    """Name a run that begins. One that has begun earlier, and still runs, finds the name before its next batch."""
    name = uuid.uuid4().hex
    # The later run wins: one whose process hangs must not keep others away for ever.
    write(folder / _RUN, name.encode())
    return name


def _identity(folder: CheckpointPath) -> str:
    """The unique name of the checkpoint in a folder. A new checkpoint in the same folder has another name."""
    file = folder / IDENTITY
    if not file.exists():
        # Written atomically: two checkpoints with an empty name would take each other's batches for their own.
        write(file, uuid.uuid4().hex.encode())
    return file.read_text(errors="replace")


def _starts(
    folder: CheckpointPath, sources: tuple[str, ...], plan: Plan, system: System, settings: Settings
) -> dict[str, list[int]]:
    """The offsets at which the sources begin. They are stored beside the checkpoint: if the first run fails before its
    first batch, the next run begins at the same offsets, even if those were the latest then."""
    file = folder / "starts"
    if not file.exists():
        admin, tables = system.admin(), table_streams(plan)
        latest = {name for name in sources if settings.offset_default == "latest" and name not in tables}
        starts = {name: (input_ends if name in latest else input_starts)(plan, admin, name) for name in sources}
        write(file, msgspec.json.encode(starts))
    return read(file, dict[str, list[int]])


@contextmanager
def times_of(query: QueryPlan, connection: Connection, stop_at: StopAt | None) -> Iterator[QueryTimes | None]:
    """The times of a query in this run; None for a query without state, which depends on no time."""
    if not query.keeps_state:
        yield None
        return
    file = query.folder / "times"
    if file.exists():
        record = read(file, TimesRecord)
    else:
        # Versions before this file was kept have begun batches without it.
        begun = bool(batch_numbers(query.checkpoint, PLANNED))
        record = first_record(query.levels, query.buckets.count, connection.counts(query).watermarks, begun=begun)
    catches_up = stop_at is not None and stop_at.catches_up
    with closing(BatchRequests(lambda: connection.offsets_left(query, stop_at))) as requests:
        yield QueryTimes(
            query.plan,
            query.levels,
            record,
            lambda record: write(file, msgspec.json.encode(record)),
            requests,
            wall_clock,
            catches_up=catches_up,
        )


def start_query(
    query: QueryPlan,
    connection: Connection,
    session: SparkSession,
    settings: Settings,
    stop_at: StopAt | None,
    times: Mapping[str, QueryTimes | None],
    sizers: Mapping[str, BatchSizer],
    statuses: Mapping[str, QueryStatus],
) -> StreamingQuery:
    """Start a query. With `stop_at` it stops when it has read up to these offsets; else it runs until it is stopped.
    `times`, `sizers` and `statuses` are those of all queries, by group; without a sizer the bound of a batch is that of
    the settings."""
    own, sizer = times[query.group], sizers.get(query.group)
    batch_records = settings.spark_batch_records if sizer is None else sizer.begin()
    requests = "" if own is None else own.start()
    if query.keeps_state:
        session.conf.set(SHUFFLE_PARTITIONS, str(tasks_of(query, session, settings.spark_shuffle_partitions)))
    check_split(session, query)
    sink = connection.sink(query, session)
    rows = connection.rows(session, query, batch_records, stop_at, requests, sink.outputs)
    for level in range(1, query.levels.count):
        processor = LevelProcessor(query.shipped, level, sink.outputs)
        begins = first_state(session, query, level)
        # Without Spark's notion of time: the driver finds watermarks, as the local engine does.
        rows = rows.groupBy("bucket").transformWithStateInPandas(
            processor, SPARK_SCHEMA, "append", "none", initialState=begins
        )
    writer = (
        observed(rows, query)
        .writeStream.foreachBatch(_runner(query, sink, session, own, sizer, statuses[query.group]))
        .outputMode("append")
        .queryName(query.group)
        .option("checkpointLocation", str(query.checkpoint.absolute()))
    )
    if stop_at is not None:
        return writer.trigger(availableNow=True).start()
    seconds = settings.spark_trigger_interval.total_seconds()
    return writer.trigger(processingTime=f"{seconds} seconds").start()


def _runner(
    query: QueryPlan,
    sink: BatchSink,
    session: SparkSession,
    times: QueryTimes | None,
    sizer: BatchSizer | None,
    status: QueryStatus,
) -> "Callable[[DataFrame, int], None]":
    """What Spark calls with each batch, in the thread that begins the jobs of the batch."""

    def run(rows: "DataFrame", batch: int) -> None:
        began = time.monotonic()
        check_own(query)
        if times is not None:
            send_times(session.sparkContext, times.begin(batch))
        with status.in_batch(batch, {} if times is None else times.watermarks):
            report = sink.run(rows, batch)
        if times is not None:
            times.finish(batch, report)
        status.finish(report.counts, {} if times is None else times.watermarks)
        if sizer is not None:
            sizer.took(time.monotonic() - began, sum(report.counts.by_kind.get("read", {}).values()))

    return run
