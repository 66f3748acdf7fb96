"""One query of Spark's for each connected part of a plan: source, level 0, the levels behind shuffles, the sink."""

import uuid
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from ...dsl.checks import explain
from ...dsl.errors import PlanError
from ...planner.plan import Plan, PlannedStage
from ...planner.settings import Settings
from ..systems.log import LogSystem
from .files import write
from .levels import Levels
from .log_sink import SinkOptions
from .log_source import LogOptions
from .lowering import levels
from .rows import SPARK_SCHEMA
from .shipping import Cargo, Shipment, laid_down, pack
from .stateful import LevelProcessor


@dataclass(frozen=True, slots=True)
class Part:
    """A connected part of a plan on its way to a query. `folder` holds Spark's checkpoint; `group` names this very
    checkpoint in the log, where the batches it has published are noted. `starts` is where its sources are begun at."""

    plan: Plan
    system: LogSystem
    levels: Levels
    shipment: Shipment
    folder: Path
    group: str
    sources: tuple[str, ...]
    starts: dict[str, list[int]]

    @property
    def keeps_state(self) -> bool:
        return self.levels.count > 1


def prepare(plan: Plan, stages: list[PlannedStage], system: LogSystem, settings: Settings, root: Path) -> Part:
    """Make a part ready to start: its levels, its functions as bytes, and its checkpoint's folder."""
    found = levels(plan, stages, settings.spark_buckets)
    packed = pack(Cargo(plan, found, settings.spark_buckets))
    folder = _folder(plan, stages, settings, root)
    shipment = laid_down(packed, folder)
    names = [name for stage in stages for name in stage.inputs]
    sources = tuple(name for name in names if plan.stream(name).kind == "source")
    starts = _starts(folder, sources, system, settings)
    return Part(plan, system, found, shipment, folder, f"{plan.name}@{_identity(folder)}", sources, starts)


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


def _starts(folder: Path, sources: tuple[str, ...], system: LogSystem, settings: Settings) -> dict[str, list[int]]:
    """Where the sources are begun at. Kept beside the checkpoint, so that a first run which dies before its first batch
    is gone on with where it began, though that was the latest offset then."""
    file = folder / "starts"
    if not file.exists():
        admin = system.admin()
        begin = admin.ends if settings.offset_default == "latest" else admin.starts
        write(file, msgspec.json.encode({name: begin(name) for name in sources}))
    return msgspec.json.decode(file.read_bytes(), type=dict[str, list[int]])


def start(part: Part, session: SparkSession, settings: Settings, ends: dict[str, list[int]] | None) -> StreamingQuery:
    """Start the query of a part; with `ends`, by stream and partition, it stops by itself when it has come there and
    has fired all windows."""
    source = LogOptions(
        directory=str(part.system.directory.absolute()),
        starts=part.starts,
        ends=None if ends is None else {name: ends[name] for name in part.sources},
        closing=ends is not None and part.keeps_state,
        batch_records=settings.spark_batch_records,
        shipment=part.shipment,
    )
    rows = session.readStream.format("fluvial_log").option("told", _json(source)).load()
    for level in range(1, part.levels.count):
        processor = LevelProcessor(part.shipment, level)
        rows = rows.groupBy("bucket").transformWithStateInPandas(processor, SPARK_SCHEMA, "append", "none")
    sink = SinkOptions(
        directory=str(part.system.directory.absolute()),
        fsync=part.system.fsync,
        partitions={stream.name: stream.partitions for stream in part.plan.streams},
        group=part.group,
    )
    seconds = settings.spark_trigger_interval.total_seconds()
    writer = (
        rows.writeStream.format("fluvial_log_sink")
        .outputMode("append")
        .queryName(part.group)
        .option("told", _json(sink))
        .option("checkpointLocation", str((part.folder / "spark").absolute()))
    )
    if ends is not None:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{seconds} seconds").start()


def _json(told: LogOptions | SinkOptions) -> str:
    return msgspec.json.encode(told).decode()
