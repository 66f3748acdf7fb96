"""The Spark engine: lowers a plan to Structured Streaming queries, runs them, and reports."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...dsl.errors import UnsupportedError, UsageError
from ...dsl.validation import explain
from ...planner.plan import Plan
from ...planner.settings import Settings
from ...planner.state_schema import StateSchema
from ..data_frames.bindings import NO_DATA_FRAMES, DataFrames
from ..preflight.input_streams import InputStreamMonitor
from ..preflight.state_compatibility import reset_command
from ..preflight.unsupported import limitations
from ..process.interruptions import interruptions_raised
from ..process.resource_limits import exhaustion_explained, full_disks_explained
from ..process.signals import stop_signals
from ..process.stop_request import Stopped
from ..report import OnProgress, Report
from ..state.checkpoint_path import CheckpointPath
from ..state.pipeline_folder import queries_folder, remote_folder
from ..systems.contract import System
from ..systems.kafka import KafkaSystem
from ..systems.log import LogSystem
from ..systems.provisioning import make_streams
from .atomic_file import refusals_explained
from .connectors.kafka import KafkaConnection
from .connectors.log import LogConnection
from .frames.batch_run import run_batch
from .frames.connection import FrameConnection, NoSystem, refuse_shared
from .frames.job_session import refuse_large_types, session_of, users_session
from .frames.output_schema import OutputSchema, output_schemas
from .hadoop_path import HadoopPath
from .lowering.lowering import components, has_loop
from .lowering.query_plan import QueryPlan
from .query.batch_sizing import BatchSizer
from .query.checkpoint_record import check_checkpoint, few_buckets, wanted_record
from .query.checkpoint_removal import finish_removals
from .query.connection import Connection, StopAt
from .query.input_offsets import input_ends
from .query.java_process import java_end_explained
from .query.progress import QueryMonitor
from .query.query import of_one_run, prepare, start_query, times_of
from .query.session import STATE_OF_FRAMES, local_folders, session_for
from .query.supervision import run_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run(
    plan: Plan,
    system: System,
    settings: Settings,
    until: str,
    progress: OnProgress | None,
    spark: Any = None,
    frames: DataFrames = NO_DATA_FRAMES,
) -> Report:
    """Run a plan on Spark. Raises UnsupportedError for what Spark cannot run, before anything starts."""
    if frames.bounded:
        _refuse_unsupported(plan, "", settings)
        return run_batch(plan, frames, settings, progress, spark)
    started = time.monotonic()
    connection = NoSystem(system) if frames and frames.alone(plan) else connect(plan, system)
    _refuse_unsupported(plan, system.url, settings)
    refuse_shared(plan, frames)
    local = folder_of(plan, system, settings, alone=bool(frames) and frames.alone(plan))
    claimed = None if isinstance(local, str) else local
    monitor: QueryMonitor | None = None
    # A run that is stopped within a batch is continued by the next run, from the end of the batch before.
    with (
        exhaustion_explained(),
        nullcontext() if claimed is None else refusals_explained(claimed),
        stop_signals() as stop,
        suppress(Stopped),
        interruptions_raised(),
        java_end_explained(stop),
        connection.claim(plan.name, local),
    ):
        # Those of all queries, before any record is written, and where that is possible before Spark starts.
        if claimed is not None:
            _checked(plan, connection, claimed, settings)
        with _session(session_of(frames, spark), claimed) as session:
            root = _opened(local, plan, connection, session, settings)
            schemas = output_schemas(plan, frames)
            connection = _with_frames(connection, frames, schemas, session, users_session(frames, spark))
            queries = _prepared(plan, connection, session, settings, root / plan.name, frames, schemas)
            sources = list(dict.fromkeys(name for query in queries for name in query.sources))
            stop_at = _stop_at(plan, system, sources, until)
            inputs = InputStreamMonitor(plan, system, settings, sources, engine="spark", ends=stop_at is not None)
            context = session.sparkContext
            monitor = QueryMonitor(plan, queries, connection, context, started, progress, stop, inputs, frames.inputs)
            stop.begin()
            for part in _parts(stop_at, frames):
                if not stop():
                    _run_until(part, queries, connection, session, settings, monitor)
            monitor.finish()
    return Report(pipeline=plan.name, engine="spark", seconds=0.0) if monitor is None else monitor.report()


@contextmanager
def _session(spark: Any, claimed: Path | None) -> Iterator["SparkSession"]:
    """The session of a run. An error of a full disk tells of those that the run writes to."""
    own = [] if claimed is None else [claimed]
    with session_for(spark) as session, full_disks_explained([*own, *local_folders(session)]):
        yield session


def _with_frames(
    connection: Connection,
    frames: DataFrames,
    schemas: Mapping[str, OutputSchema],
    session: "SparkSession",
    theirs: Any,
) -> Connection:
    """A connection to DataFrames, too, if the run has any."""
    if not frames:
        return connection
    refuse_large_types(theirs)
    session.conf.set(*STATE_OF_FRAMES)
    return FrameConnection(connection, frames, schemas, theirs)


def _parts(stop_at: StopAt | None, frames: DataFrames) -> list[StopAt | None]:
    """The parts of a run, each up to somewhere. Spark does not say which batch is the last one of a DataFrame: so what
    there is comes first, and the end in a part of its own."""
    if stop_at is None or stop_at.catches_up or not frames.inputs:
        return [stop_at]
    return [replace(stop_at, catches_up=True), stop_at]


def _run_until(
    stop_at: StopAt | None,
    queries: Sequence[QueryPlan],
    connection: Connection,
    session: "SparkSession",
    settings: Settings,
    monitor: QueryMonitor,
) -> None:
    """Run the queries until they have come to their ends, or the run is to stop."""
    with ExitStack() as stack:
        times = {query.group: stack.enter_context(times_of(query, connection, stop_at)) for query in queries}
        sizers = _sizers(queries, settings)
        begin = partial(
            start_query,
            connection=connection,
            session=session,
            settings=settings,
            stop_at=stop_at,
            times=times,
            sizers=sizers,
            statuses=monitor.statuses,
        )
        run_queries(queries, begin, connection, monitor, settings.spark_patience, sizers)


def _opened(
    folder: Path | str, plan: Plan, connection: Connection, session: "SparkSession", settings: Settings
) -> CheckpointPath:
    """The folder of the queries. What lies behind a URL is checked now."""
    if not isinstance(folder, str):
        return folder
    root = HadoopPath.of(session, folder)
    _checked(plan, connection, root, settings)
    return root


def _stop_at(plan: Plan, system: System, sources: Sequence[str], until: str) -> StopAt | None:
    """Where the run stops: all queries of one stream at the same messages. None if it goes on."""
    if until == "stopped":
        return None
    admin = system.admin()
    return StopAt({name: input_ends(plan, admin, name) for name in sources}, catches_up=until == "caught-up")


def _sizers(queries: Sequence[QueryPlan], settings: Settings) -> dict[str, BatchSizer]:
    """What fits the bound of batches to the duration that the settings want, by query; nothing if they want none."""
    duration = settings.spark_batch_duration
    if duration is None:
        return {}
    return {query.group: BatchSizer(duration, settings.spark_batch_records) for query in queries}


def _checked(plan: Plan, connection: Connection, root: CheckpointPath, settings: Settings) -> None:
    """Remove what an interrupted reset has left, and check the checkpoints that are there."""
    finish_removals(plan, connection, root / plan.name)
    check_checkpoints(plan, connection.system, settings, root)


def _prepared(
    plan: Plan,
    connection: Connection,
    session: "SparkSession",
    settings: Settings,
    root: CheckpointPath,
    frames: DataFrames,
    schemas: Mapping[str, OutputSchema],
) -> list[QueryPlan]:
    """The queries of a plan, ready to start."""
    # Before any stream is created: a session without the connector is refused, and leaves nothing behind.
    connection.prepare(session)
    # Those between stages stay in their query.
    make_streams(frames.system_part(plan), connection.system.admin(), without="intermediate")
    columns = {name: schema.columns for name, schema in schemas.items()}
    queries = of_one_run(
        [prepare(plan, stages, connection, session, settings, root, frames, columns) for stages in components(plan)]
    )
    for query in queries:
        connection.check(query, reset_command(plan, connection.system, settings, "spark"))
    return queries


_CONNECTIONS: tuple[tuple[type[Any], Callable[[Any], Connection]], ...] = (
    (LogSystem, LogConnection),
    (KafkaSystem, KafkaConnection),
)


def connect(plan: Plan, system: System) -> Connection:
    """The connection of queries to a system. Raises UnsupportedError for a system that Spark's workers cannot see."""
    make = next((make for kind, make in _CONNECTIONS if isinstance(system, kind)), None)
    if make is None:
        raise _invisible(plan, system)
    return make(system)


def _invisible(plan: Plan, system: System) -> UnsupportedError:
    wrong = f"the Spark engine cannot use {system.url}: Spark's workers are other processes and cannot see it"
    return UnsupportedError(
        explain(wrong, "log:DIR or kafka://HOST:PORT", "pass system='log:DIR'", plan.pipeline.origin)
    )


def folder_of(plan: Plan, system: System, settings: Settings, *, alone: bool = False) -> Path | str:
    """The folder in which pipelines have the folders of their queries, or the URL of one on another file system. Raises
    UnsupportedError as `connect` does, and UsageError for such a URL beside an embedded log, which is a folder of its
    own; not if the run is `alone` with DataFrames, and has no stream there."""
    if (url := remote_folder(settings)) is not None:
        if isinstance(system, LogSystem) and not alone:
            wrong = f"state_dir={url!r} beside {system.url}, which is a folder that all workers see"
            expected = "a folder of the same kind, or a system that needs no shared folder"
            remedy = "leave out state_dir, or use kafka://HOST:PORT"
            raise UsageError(explain(wrong, expected, remedy, plan.pipeline.origin))
        return url
    folder = queries_folder(system, settings)
    if folder is None:
        raise _invisible(plan, system)
    return folder


def refuse_impossible(plan: Plan, system: System, settings: Settings) -> None:
    """Raise an error for what Spark cannot run, or cannot go on with. Nothing is written, and Spark is not started."""
    connect(plan, system)
    _refuse_unsupported(plan, system.url, settings)
    check_checkpoints(plan, system, settings)


def check_checkpoints(
    plan: Plan, system: System, settings: Settings, root: CheckpointPath | None = None
) -> list[tuple[str, StateSchema]]:
    """Raise PlanError if a query of the plan cannot continue its checkpoint. Returns the records of stored state, as
    (operator, record). Without `root` the checkpoints are those on a local disk: others are checked once Spark runs."""
    above = folder_of(plan, system, settings) if root is None else root
    if isinstance(above, str):
        return []
    folder, reset = above / plan.name, reset_command(plan, system, settings, "spark")
    records: list[tuple[str, StateSchema]] = []
    for stages in components(plan):
        wanted = wanted_record(plan, stages, settings)
        with refusals_explained(folder):
            records += check_checkpoint(plan, wanted, folder, reset).items()
    return records


def few_key_buckets(plan: Plan, system: System, settings: Settings) -> int | None:
    """The least number of key buckets of a query of the plan that has fewer than a new one, and may have as many; None
    if none has, or the settings say how many. Checkpoints behind a URL are not looked at."""
    above = folder_of(plan, system, settings)
    if isinstance(above, str) or settings.spark_buckets is not None:
        return None
    wanted = (wanted_record(plan, stages, settings) for stages in components(plan))
    return min(filter(None, (few_buckets(plan, one, above / plan.name) for one in wanted)), default=None)


def _refuse_unsupported(plan: Plan, system: str, settings: Settings) -> None:
    """Raise UnsupportedError for what Spark cannot run; `system` is the URL of one, empty where there is none."""
    for limitation in limitations(plan, "spark", system, settings):
        wrong = f"the Spark engine cannot run {limitation.subject!r} on {system}: {limitation.reason}"
        remedy = "leave out what is named, such as bootstrap=, or use the local engine or a log"
        raise UnsupportedError(explain(wrong, "what this engine can run there", remedy, plan.pipeline.origin))
    if has_loop(plan):
        wrong = (
            f"pipeline {plan.name!r} brings messages from behind a partition_by together with others from before it, "
            "in a merge, a join or a table"
        )
        remedy = "give both a partition_by of their own, or use the local engine"
        raise UnsupportedError(explain(wrong, "stages in one direction", remedy, plan.pipeline.origin))
