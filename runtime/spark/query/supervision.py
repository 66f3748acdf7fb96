"""Runs queries until all have ended. A query that fails is started again, or its error becomes one of ours."""

import logging
import math
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import MappingProxyType

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql.streaming.query import StreamingQuery

from ....dsl.errors import FluvialError, SystemProblem
from ....dsl.validation import explain
from ...process.resource_limits import exhausted, remedy_for
from ...process.run_control import RUN_CONTROL
from ..hadoop_path import refusal_remedy
from ..lowering.query_plan import QueryPlan
from ..worker.error_texts import LASTING, lost_files
from .batch_sizing import BatchSizer
from .checkpoint_log import is_between_batches
from .connection import Connection
from .java_process import QueryFailed, reason
from .progress import QueryMonitor

# Each look is a call of Java, and a stop is noticed so much later at the most.
POLL_SECONDS = 0.2
"""Time between two looks at whether queries have ended."""
# Short, since the moment between two batches is: Spark plans the next one within tens of milliseconds.
STOP_SECONDS = 0.02
"""Time between two looks at whether a query may be stopped."""

_BATCHES_TO_WAIT = 4
"""So many times as long as a batch should take a query may go on before it is stopped within a batch, which is then run
again. The moment between two batches is short, and a busy machine may miss it for ever."""

START_SECONDS = 10
"""How long Spark waits until the Python process of a source has started. Spark has no setting for it."""

_TOO_SLOWLY = "Python worker failed to connect back"
"""Spark's message if the process has not started by then. The machine may just have been busy, so the query is started
again from its checkpoint."""

_CRASHED = "Python worker exited unexpectedly"
"""Spark's message if a Python process has ended in the middle of its work."""

_log = logging.getLogger(__name__)


def run_queries(
    query_plans: Sequence[QueryPlan],
    begin: Callable[[QueryPlan], StreamingQuery],
    connection: Connection,
    monitor: QueryMonitor,
    patience: timedelta,
    sizers: Mapping[str, BatchSizer] = MappingProxyType({}),
) -> None:
    """Start the queries and wait until all have ended. If one fails, all are stopped. But a query whose Python
    processes start too slowly is started again, for as long as `patience` lasts without a batch; so is one whose sizer
    has found another bound for its batches."""
    most = max(1, math.ceil(patience.total_seconds() / START_SECONDS))
    queries: list[StreamingQuery] = []
    starts = [1] * len(query_plans)
    try:
        for query_plan in query_plans:
            queries.append(_begun(begin, query_plan, most))
        _show(queries)
        while not monitor.stop():
            _await_any(queries)
            # Before errors are looked for: a query that fails in between is seen at the next turn, and does not count
            # as ended well.
            active = any(query.isActive for query in queries)
            slow = _slow(queries, starts, most)
            # The pipeline is not at fault: no error is raised as long as the query may be started again.
            for number in slow:
                _log.warning("a Python process of query %s came up too slowly; the query is begun again", number)
                queries[number] = _begun(begin, query_plans[number], most)
                starts[number] += 1
            for number, query_plan in enumerate(query_plans if sizers else ()):
                if _stopped_for_size(queries[number], query_plan, sizers.get(query_plan.group)):
                    queries[number] = _begun(begin, query_plan, most)
            _show(queries)
            if not slow:
                _raise_any(queries, most)
                if not active:
                    break
            monitor.report_progress()
        for query_plan, query in zip(query_plans, queries, strict=True):
            _stopped_when(query, partial(connection.may_stop, query_plan))
        _raise_any(queries, most)
    finally:
        for query in queries:
            query.stop()


def _stopped_for_size(query: StreamingQuery, plan: QueryPlan, sizer: BatchSizer | None) -> bool:
    """Stop a query between two batches where its sizer has found another bound for them. Returns whether it was."""
    if sizer is None or not sizer.due:
        return False
    return _stopped_when(query, partial(is_between_batches, plan.checkpoint), _BATCHES_TO_WAIT * sizer.target)


def _stopped_when(query: StreamingQuery, may_stop: Callable[[], bool], patience: float = math.inf) -> bool:
    """Stop a query as soon as it may be stopped, or after `patience` seconds. False if it has ended or failed by itself
    before."""
    deadline = time.monotonic() + patience
    while query.isActive and not may_stop() and time.monotonic() < deadline:
        time.sleep(STOP_SECONDS)
    # Before it is stopped: afterwards nobody can tell whether it had failed by itself.
    active = query.isActive
    query.stop()
    return active


def _show(queries: Sequence[StreamingQuery]) -> None:
    """Show the queries to whoever holds this run."""
    if (control := RUN_CONTROL.get()) is not None:
        control.queries = tuple(queries)


def _begun(begin: Callable[[QueryPlan], StreamingQuery], query_plan: QueryPlan, starts: int) -> StreamingQuery:
    try:
        return begin(query_plan)
    except (PySparkException, Py4JJavaError) as error:
        raise problem(error, starts) from error


def _await_any(queries: Sequence[StreamingQuery]) -> None:
    active = next((query for query in queries if query.isActive), None)
    if active is not None:
        try:
            active.awaitTermination(POLL_SECONDS)  # type: ignore[arg-type]
        except StreamingQueryException:
            return  # `_raise_any` raises it from the query's `exception`


def _failed(query: StreamingQuery) -> Exception | None:
    return None if query.isActive else query.exception()


def _slow(queries: Sequence[StreamingQuery], starts: list[int], most: int) -> list[int]:
    """The queries that are to be started again, since a Python process came up too slowly. Those `starts` count no more
    that were before a batch: a query may run for weeks."""
    slow = [number for number, query in enumerate(queries) if _was_slow(query)]
    for number in slow:
        if queries[number].lastProgress is not None:
            starts[number] = 1
    return [number for number in slow if starts[number] < most]


def _was_slow(query: StreamingQuery) -> bool:
    return _TOO_SLOWLY in str(_failed(query))


def _raise_any(queries: Sequence[StreamingQuery], starts: int) -> None:
    """Raise the error of the first query that has failed. `starts` is the most times that a query was started."""
    for query in queries:
        if (error := _failed(query)) is not None:
            raise problem(error, starts)


_RAISED = re.compile(
    r"^fluvial\.dsl\.errors\.(\w+): (.*?)"
    r"(?=\n\s*(?:at org\.|SQLSTATE|=== Streaming Query|JVM stack|Driver stack|"
    r"The above exception was|During handling of the above)|\Z)",
    re.DOTALL | re.MULTILINE,
)
_KINDS: dict[str, type[FluvialError]] = {**LASTING, SystemProblem.__name__: SystemProblem}

_NO_FLUVIAL = re.compile("No module named '(?:fluvial|pyarrow)'")
"""Python's message in a worker that is not the Python in which Fluvial and what it needs were installed."""

_NO_PYTHON = re.compile(r'Cannot run program ".*(?:No such file or directory|Permission denied).*')
"""Java's message if it cannot start the Python that Spark was told to use."""

_INCOMPLETE = re.compile(
    r"\[(?:CANNOT_LOAD_STATE_STORE|STREAMING_STATEFUL_OPERATOR|STREAMING_CHECKPOINT|STDS_)[A-Z_.]*\]"
    "|Failed to read log file|No content to map due to end-of-input"
)
"""What Spark says of a checkpoint of which files are gone or cut: names of its errors, and texts where it has none."""

_ANY_REASON = "CANNOT_LOAD_STATE_STORE.UNCATEGORIZED"
"""What Spark says of state that it could not read for any reason that it does not know, such as a file system that is
away for a time."""

_CAUSED = "Caused by: "

_CONCURRENT = "CONCURRENT_STREAM_LOG_UPDATE"
"""Spark's error if two runs plan or commit the same batch."""

_GONE = "failOnDataLoss"
"""The option that Spark's connector to Kafka names in its error if messages are gone."""

_TIME = re.compile(r"topic (\S+) partition (\d+) offset (\d+) has timestamp value (-?\d+) that overflows")
"""What Spark's connector to Kafka says of a message whose time is no time in microseconds: ms above 2^63 / 1000."""


def problem(error: Exception, starts: int) -> FluvialError:
    """Spark's error as one of ours. An error that was raised in a worker is in the text, as a Python traceback."""
    text = str(error)
    raised = [(_KINDS[match[1]], match[2]) for match in _RAISED.finditer(text) if match[1] in _KINDS]
    if raised:
        # The last one: Python prints the error that another one was raised from before it.
        kind, message = raised[-1]
        return kind(message.strip())
    message = reason(error)
    if _CONCURRENT in message:
        wrong = f"another run of the pipeline has written the same checkpoint: {message}"
        remedy = "stop one of them; the other goes on from its last batch"
        return QueryFailed(explain(wrong, "one run of a pipeline at a time", remedy))
    if _GONE in message:
        remedy = "remove the pipeline's folder of checkpoints on Spark, to start over with the messages that are left"
        wrong = f"messages are gone that were still to be read: {message.partition('Reason:')[2].strip() or message}"
        return SystemProblem(explain(wrong, "topics that keep messages until they are read", remedy))
    for said in (_cause(text), message):
        if (refused := refusal_remedy(said)) is not None:
            # Of the checkpoint, or of a DataFrame that is read or written.
            wrong = f"a file system refuses what Spark asks of it: {said.splitlines()[0]}"
            expected = "inputs that may be read, and folders that take what is written there"
            return SystemProblem(explain(wrong, expected, refused))
    if (overflow := _TIME.search(message)) is not None:
        return _unreadable_time(*overflow.groups())
    if (of_worker := _worker_problem(message, starts)) is not None:
        return of_worker
    # Behind the others: such words also stand in what users' functions raise, which has been reported by then.
    if line := next((line for line in text.splitlines() if remedy_for(Exception(line))), None):
        return exhausted(Exception(line.strip(" :")), "Spark")
    if (without_python := python_problem(message)) is not None:
        return without_python
    if _INCOMPLETE.search(message):
        return _unreadable(message, _cause(text))
    return QueryFailed(f"the query on Spark has failed: {message}")


def _worker_problem(message: str, starts: int) -> FluvialError | None:
    """The error of a Python process of Spark's that did not start in time, or has ended; None for other messages."""
    if _TOO_SLOWLY in message:
        times = "once, and" if starts == 1 else f"{starts} times, and each time"
        wrong = f"the query on Spark was begun {times} a Python process was not up within {START_SECONDS} s"
        remedy = "run it where there are cores to spare, or give it more time with Settings(spark_patience=...)"
        return SystemProblem(explain(wrong, "Python processes that start in a second or two", remedy))
    if _CRASHED in message:
        wrong = "a Python process of Spark has ended in the middle of its work"
        remedy = (
            "see whether the system has ended it for want of memory, or a function ends or crashes its process; then "
            "start again: the run goes on from its last batch"
        )
        return QueryFailed(explain(wrong, "Python processes that live as long as their tasks", remedy))
    return None


def _cause(text: str) -> str:
    """The first cause of a Java error, as its traceback has it; empty where that has none."""
    causes = [line.strip() for line in text.splitlines() if line.lstrip().startswith(_CAUSED)]
    return causes[-1].removeprefix(_CAUSED) if causes else ""


def _unreadable(message: str, cause: str) -> QueryFailed:
    """The error of a checkpoint that Spark cannot read, where Spark may not have seen whether that lasts."""
    said = f"{message}: {cause}" if cause and cause not in message else message
    before = "start again, if its file system was out of reach for a time; else " if _ANY_REASON in message else ""
    return QueryFailed(lost_files(f"Spark cannot read its checkpoint: {said}", before))


def _unreadable_time(topic: str, partition: str, offset: str, time_ms: str) -> SystemProblem:
    wrong = f"Spark's connector to Kafka cannot read the message at {topic} [{partition}] offset {offset}: its "
    wrong += f"timestamp is {time_ms}"
    expected = "ms since epoch, 9,223,372,036,854,775 at most"
    remedy = (
        "correct who writes such times, and have the topic refuse them by message.timestamp.after.max.ms; the local "
        "engine reads this message, and Spark what comes behind it, once messages up to it and the pipeline's folder "
        "of checkpoints are removed"
    )
    return SystemProblem(explain(wrong, expected, remedy))


def python_problem(message: str) -> SystemProblem | None:
    """The error if Spark cannot start Python, or starts one that has no Fluvial; None otherwise."""
    if _NO_FLUVIAL.search(message):
        wrong = "Spark starts a Python that has no Fluvial"
        remedy = (
            f"set PYSPARK_PYTHON={sys.executable} in the environment before the session is made, or "
            "spark.pyspark.python; on a cluster, install Fluvial on each worker"
        )
        return SystemProblem(explain(wrong, "a Python with the same version of Fluvial as here", remedy))
    if (no_python := _NO_PYTHON.search(message)) is not None:
        wrong = f"Spark cannot start Python: {no_python[0]}"
        remedy = f"set PYSPARK_PYTHON={sys.executable} in the environment, or spark.pyspark.python"
        return SystemProblem(explain(wrong, "a Python that every worker can start", remedy))
    return None
