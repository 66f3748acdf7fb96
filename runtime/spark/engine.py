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
from ...dsl.errors import FluvialError, MessageError, SystemProblem, UnsupportedError
from ...planner.plan import Plan
from ...planner.settings import Settings
from ..report import OnProgress, Progress, Report
from ..signals import stop_signals
from ..streams import make_streams
from ..systems.contract import System
from ..systems.log import LogSystem
from .log_sink import Totals, add_counts, totals_of
from .lowering import components, has_loop
from .query import Part, prepare, start
from .session import session_for

POLL_SECONDS = 0.2


def run(
    plan: Plan, system: System, settings: Settings, until: str, progress: OnProgress | None, spark: Any = None
) -> Report:
    """Run a plan on Spark. Everything that Spark cannot do is refused before anything starts."""
    started = time.monotonic()
    log = _refuse(plan, system)
    admin = log.admin()
    make_streams(plan, admin)
    root = Path(settings.state_dir or log.directory / "spark") / plan.name
    parts = [prepare(plan, stages, log, settings, root) for stages in components(plan)]
    before = _totals(log, parts)
    ends = {name: admin.ends(name) for part in parts for name in part.sources} if until == "end" else None
    with session_for(spark, settings) as session, stop_signals() as stop:
        watch = _Watch(log, parts, before, started, progress, stop)
        _run_all([partial(start, part, session, settings, ends) for part in parts], watch)
    return _report(plan, log, parts, before, started)


def _refuse(plan: Plan, system: System) -> LogSystem:
    if not isinstance(system, LogSystem):
        wrong = f"the Spark engine cannot use {system.url}: Spark's workers are other processes and cannot see it"
        raise UnsupportedError(explain(wrong, "log:DIR", "pass system='log:DIR'", plan.pipeline.origin))
    if has_loop(plan):
        wrong = f"pipeline {plan.name!r} merges messages from behind a partition_by with others from before it"
        remedy = "give both a partition_by of their own, or use the local engine"
        raise UnsupportedError(explain(wrong, "stages in one direction", remedy, plan.pipeline.origin))
    return system


def _run_all(starts: Sequence[Callable[[], StreamingQuery]], watch: "_Watch") -> None:
    """Start the queries and wait for their end. One that fails, be it to start, ends all."""
    queries: list[StreamingQuery] = []
    try:
        for begin in starts:
            queries.append(begin())
        while any(query.isActive for query in queries) and not watch.stop():
            _await_any(queries)
            _raise_any(queries)
            watch.tell()
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


class _Watch:
    """Looks after queries while they run: tells progress, and hears the wish to stop."""

    def __init__(
        self,
        log: LogSystem,
        parts: Sequence[Part],
        before: Totals,
        started: float,
        progress: OnProgress | None,
        stop: Any,
    ) -> None:
        self._log, self._parts, self._before, self._started = log, parts, before, started
        self._progress = progress
        self.stop = stop
        self._next = started + 1.0

    def tell(self) -> None:
        now = time.monotonic()
        if self._progress is None or now < self._next:
            return
        self._next = now + 1.0
        counts = _since(_totals(self._log, self._parts), self._before)
        sources = [name for part in self._parts for name in part.sources]
        read = sum(counts.get("read", {}).get(name, 0) for name in sources)
        written = sum(counts.get("written", {}).values())
        self._progress(Progress(phase="running", seconds=now - self._started, read=read, written=written))


def _totals(log: LogSystem, parts: Sequence[Part]) -> Totals:
    found: Totals = {}
    admin = log.admin()
    for part in parts:
        add_counts(found, totals_of(admin.checkpoints(part.group)))
    return found


def _since(totals: Totals, before: Totals) -> Totals:
    return {
        kind: {name: number - before.get(kind, {}).get(name, 0) for name, number in counts.items()}
        for kind, counts in totals.items()
    }


def _report(plan: Plan, log: LogSystem, parts: Sequence[Part], before: Totals, started: float) -> Report:
    counts = _since(_totals(log, parts), before)
    read, written, late, failed = (
        {name: number for name, number in counts.get(kind, {}).items() if number}
        for kind in ("read", "written", "late", "failed")
    )
    seconds = time.monotonic() - started
    return Report(
        pipeline=plan.name, engine="spark", seconds=seconds, read=read, written=written, late=late, failed=failed
    )


_MESSAGE = re.compile(
    r"fluvial\.dsl\.errors\.(\w+): (.*?)(?=\n\s*(?:\n|at org\.|SQLSTATE|JVM stack|Driver stack)|\Z)", re.DOTALL
)


def _problem(error: Exception | None) -> FluvialError:
    """Spark's error as ours: a message that failed in a worker comes back as the text of a traceback."""
    text = str(error)
    found = [match for match in _MESSAGE.finditer(text) if match[1] == "MessageError"]
    if found:
        return MessageError(found[-1][2].strip())
    return SystemProblem(f"the query on Spark has failed: {text.strip()}")
