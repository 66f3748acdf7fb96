"""One query of Spark's for each connected part of a plan: source, level 0, the levels behind shuffles, the sink."""

import uuid
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...dsl.checks import explain
from ...dsl.errors import PlanError
from ...planner.plan import Plan, PlannedStage
from ...planner.settings import Settings
from ..streams import table_streams
from ..systems.contract import System
from .connection import Connection, Offsets
from .files import write
from .lowering import levels
from .part import Part
from .rows import SPARK_SCHEMA
from .shipping import Cargo, laid_down, pack
from .stateful import LevelProcessor


def prepare(plan: Plan, stages: list[PlannedStage], connection: Connection, settings: Settings, root: Path) -> Part:
    """Make a part ready to start: its levels, its functions as bytes, and its checkpoint's folder."""
    found = levels(plan, stages, settings.spark_buckets)
    packed = pack(Cargo(plan, found, settings.spark_buckets))
    folder = _folder(plan, stages, settings, root)
    shipment = laid_down(packed, folder)
    names = [name for stage in stages for name in stage.inputs]
    sources = tuple(name for name in names if plan.stream(name).kind == "source")
    starts = _starts(folder, sources, connection.system, settings, table_streams(plan))
    return Part(plan, found, shipment, folder, f"{plan.name}@{_identity(folder)}", sources, starts)


def _folder(plan: Plan, stages: list[PlannedStage], settings: Settings, root: Path) -> Path:
    """The checkpoint of a part. Its name tells what may not change while it is used."""
    place = root / stages[0].id
    wanted = place / plan.fingerprint(settings.spark_buckets, [stage.id for stage in stages])
    others = [path.name for path in place.iterdir() if path.is_dir()] if place.exists() else []
    if others and wanted.name not in others:
        wrong = f"pipeline {plan.name!r} has changed since its state on Spark was written to {place}"
        expected = "the same sources, stateful operators, key types, partition counts and spark_buckets"
        remedy = "give the pipeline another name to start over, or remove that folder to begin again from the sources"
        raise PlanError(explain(wrong, expected, remedy, plan.pipeline.origin))
    wanted.mkdir(parents=True, exist_ok=True)
    return wanted


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
    part: Part, connection: Connection, session: SparkSession, settings: Settings, ends: Offsets | None
) -> StreamingQuery:
    """Start the query of a part; with `ends` it stops by itself when it has come there and has fired all windows."""
    rows, outputs = connection.rows(session, part, settings, ends), connection.outputs(part)
    for level in range(1, part.levels.count):
        processor = LevelProcessor(part.shipment, level, outputs)
        rows = rows.groupBy("bucket").transformWithStateInPandas(processor, SPARK_SCHEMA, "append", "none")
    writer = (
        rows.writeStream.foreachBatch(connection.writer(part))
        .outputMode("append")
        .queryName(part.group)
        .option("checkpointLocation", str(part.checkpoint.absolute()))
    )
    if ends is not None:
        return writer.trigger(availableNow=True).start()
    seconds = settings.spark_trigger_interval.total_seconds()
    return writer.trigger(processingTime=f"{seconds} seconds").start()
