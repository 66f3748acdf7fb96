"""The Spark engine: lowers a plan to Structured Streaming queries, runs them, and reports."""

import re
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from ...dsl.checks import explain
from ...dsl.errors import (
    FluvialError,
    MessageError,
    PipelineError,
    SystemProblem,
    UnsupportedError,
    UsageError,
)
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..gaps import gaps
from ..report import OnProgress, Report
from ..signals import stop_signals
from ..streams import make_streams
from ..systems.contract import System
from ..systems.kafka import KafkaSystem
from ..systems.log import LogSystem
from .connection import Connection
from .kafka_connection import KafkaConnection
from .log_connection import LogConnection
from .lowering import components, has_loop
from .part import Part
from .query import prepare, start
from .session import session_for
from .watch import Watch

POLL_SECONDS = 0.2
STOP_SECONDS = 0.02


def run(
    plan: Plan, system: System, settings: Settings, until: str, progress: OnProgress | None, spark: Any = None
) -> Report:
    """Run a plan on Spark. Everything that Spark cannot do is refused before anything starts."""
    started = time.monotonic()
    connection = _refuse(plan, system)
    root = Path(settings.state_dir or connection.folder)
    with connection.claim(plan.name, root), session_for(spark, settings) as session, stop_signals() as stop:
        connection.prepare(session)
        admin = system.admin()
        make_streams(plan, admin, without="intermediate")  # messages between stages stay within a query
        parts = [prepare(plan, stages, connection, settings, root / plan.name) for stages in components(plan)]
        ends = {name: admin.ends(name) for part in parts for name in part.sources} if until == "end" else None
        watch = Watch(plan, parts, connection, started, progress, stop)
        begin = partial(start, connection=connection, session=session, settings=settings, ends=ends)
        _run_all(parts, begin, connection, watch)
        watch.done()
        return watch.report()


_CONNECTIONS: tuple[tuple[type[Any], Callable[[Any], Connection]], ...] = (
    (LogSystem, LogConnection),
    (KafkaSystem, KafkaConnection),
)


def _refuse(plan: Plan, system: System) -> Connection:
    connect = next((connect for kind, connect in _CONNECTIONS if isinstance(system, kind)), None)
    if connect is None:
        wrong = f"the Spark engine cannot use {system.url}: Spark's workers are other processes and cannot see it"
        raise UnsupportedError(
            explain(wrong, "log:DIR or kafka://HOST:PORT", "pass system='log:DIR'", plan.pipeline.origin)
        )
    for gap in gaps(plan, "spark", system.url):
        wrong = f"the Spark engine cannot run {gap.subject!r} on {system.url}: {gap.reason}"
        remedy = "leave out bootstrap=, or use the local engine or a log"
        raise UnsupportedError(explain(wrong, "what this engine can run there", remedy, plan.pipeline.origin))
    if has_loop(plan):
        wrong = (
            f"pipeline {plan.name!r} brings messages from behind a partition_by together with others from before it, "
            "in a merge, a join or a table"
        )
        remedy = "give both a partition_by of their own, or use the local engine"
        raise UnsupportedError(explain(wrong, "stages in one direction", remedy, plan.pipeline.origin))
    return connect(system)


def _run_all(
    parts: Sequence[Part], begin: Callable[[Part], StreamingQuery], connection: Connection, watch: Watch
) -> None:
    """Start the queries and wait for their end. One that fails, be it to start, ends all."""
    queries: list[StreamingQuery] = []
    try:
        for part in parts:
            queries.append(begin(part))
        while any(query.isActive for query in queries) and not watch.stop():
            _await_any(queries)
            _raise_any(queries)
            watch.tell()
        for part, query in zip(parts, queries, strict=True):
            while query.isActive and not connection.may_stop(part):
                time.sleep(STOP_SECONDS)
            query.stop()
        _raise_any(queries)
    finally:
        for query in queries:
            query.stop()


def _await_any(queries: Sequence[StreamingQuery]) -> None:
    active = next((query for query in queries if query.isActive), None)
    if active is not None:
        try:
            active.awaitTermination(POLL_SECONDS)  # type: ignore[arg-type]
        except StreamingQueryException:
            return  # told by `exception`, with those of the other queries


def _raise_any(queries: Sequence[StreamingQuery]) -> None:
    """Raise what a query has failed with, whatever the others do."""
    for query in queries:
        if not query.isActive and query.exception() is not None:
            raise _problem(query.exception())


_RAISED = re.compile(
    r"^fluvial\.dsl\.errors\.(\w+): (.*?)"
    r"(?=\n\s*(?:at org\.|SQLSTATE|JVM stack|Driver stack|The above exception was|During handling of the above)|\Z)",
    re.DOTALL | re.MULTILINE,
)
_KINDS: dict[str, type[FluvialError]] = {
    kind.__name__: kind for kind in (MessageError, PipelineError, SystemProblem, UsageError)
}

_GONE = "failOnDataLoss"
"""What Spark's connector to Kafka advises to set where messages are gone."""


def _problem(error: Exception | None) -> FluvialError:
    """Spark's error as ours: what was raised in a worker comes back as the text of a traceback."""
    text = str(error)
    found = [(_KINDS[match[1]], match[2]) for match in _RAISED.finditer(text) if match[1] in _KINDS]
    if found:
        kind, told = found[-1]
        return kind(told.strip())
    told = text.partition("\n=== Streaming Query ===")[0].strip()
    if _GONE in told:
        remedy = "remove the pipeline's folder of checkpoints on Spark, to begin again with what is left"
        wrong = f"messages are gone that were still to be read: {told.partition('Reason:')[2].strip() or told}"
        return SystemProblem(explain(wrong, "topics that keep messages until they are read", remedy))
    return SystemProblem(f"the query on Spark has failed: {told}")
