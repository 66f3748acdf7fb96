"""One query of Spark's for each connected part of a plan: source, level 0, the levels behind shuffles, the sink."""

import uuid
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ....planner.plan import Plan, PlannedStage
from ....planner.settings import Settings
from ...kernel.state_cache import Size
from ...preflight.state_compatibility import reset_command
from ...systems.contract import System
from ...systems.provisioning import table_streams
from ..lowering.lowering import levels
from ..lowering.packaging import PlanBundle, pack, write_shipped_plan
from ..lowering.query_plan import QueryPlan
from ..rows import SPARK_SCHEMA
from ..worker.keyed_level import LevelProcessor
from .atomic_file import write
from .checkpoint_record import find_checkpoint, wanted_record
from .connection import Connection, Offsets


def prepare(
    plan: Plan, stages: list[PlannedStage], connection: Connection, settings: Settings, root: Path
) -> QueryPlan:
    """Make a query ready to start: its levels, its functions as bytes, and its checkpoint's folder.

    Raises PlanError where Spark cannot go on with what is kept of it.
    """
    found = levels(plan, stages, settings.spark_buckets)
    fingerprint = plan.fingerprint(settings.spark_buckets, [stage.id for stage in stages])
    reset = reset_command(plan, connection.system, settings, "spark")
    kept = find_checkpoint(plan, wanted_record(plan, stages, found, settings), fingerprint, root, reset)
    folder, record = kept.folder, kept.record
    cache = Size(settings.cached_entries, settings.cached_bytes)
    packed = pack(PlanBundle(plan, found, settings.spark_buckets, cache, {} if record is None else record.resets))
    shipped = write_shipped_plan(packed, folder)
    names = [name for stage in stages for name in stage.inputs]
    sources = tuple(name for name in names if plan.stream(name).kind == "source")
    starts = _starts(folder, sources, connection.system, settings, table_streams(plan))
    return QueryPlan(plan, found, shipped, folder, _group(plan, _identity(folder)), sources, starts)


def _group(plan: Plan, identity: str) -> str:
    return f"{plan.name}@{identity}"


def group_of(plan: Plan, folder: Path) -> str | None:
    """The name that the checkpoint in a folder has in the system; None if it never had one."""
    file = folder / "identity"
    return _group(plan, file.read_text()) if file.exists() else None


def _identity(folder: Path) -> str:
    """A name that this checkpoint alone has: one that is made anew begins anew."""
    file = folder / "identity"
    if not file.exists():
        # Checkpoints that a crash has left without a name would take each other's batches for their own.
        write(file, uuid.uuid4().hex.encode())
    return file.read_text()


def _starts(
    folder: Path, sources: tuple[str, ...], system: System, settings: Settings, tables: frozenset[str]
) -> dict[str, list[int]]:
    """Where the sources are begun at. Kept beside the checkpoint, so that a first run which dies before its first batch
    is gone on with where it began, though that was the latest offset then."""
    file = folder / "starts"
    if not file.exists():
        admin = system.admin()
        latest = {name for name in sources if settings.offset_default == "latest" and name not in tables}
        found = {name: admin.ends(name) if name in latest else admin.starts(name) for name in sources}
        write(file, msgspec.json.encode(found))
    return msgspec.json.decode(file.read_bytes(), type=dict[str, list[int]])


def start(
    query: QueryPlan, connection: Connection, session: SparkSession, settings: Settings, ends: Offsets | None
) -> StreamingQuery:
    """Start a query; with `ends` it stops by itself when it has come there and has fired all windows."""
    rows, outputs = connection.rows(session, query, settings, ends), connection.outputs(query)
    for level in range(1, query.levels.count):
        processor = LevelProcessor(query.shipped, level, outputs)
        rows = rows.groupBy("bucket").transformWithStateInPandas(processor, SPARK_SCHEMA, "append", "none")
    writer = (
        rows.writeStream.foreachBatch(connection.writer(query))
        .outputMode("append")
        .queryName(query.group)
        .option("checkpointLocation", str(query.checkpoint.absolute()))
    )
    if ends is not None:
        return writer.trigger(availableNow=True).start()
    seconds = settings.spark_trigger_interval.total_seconds()
    return writer.trigger(processingTime=f"{seconds} seconds").start()
