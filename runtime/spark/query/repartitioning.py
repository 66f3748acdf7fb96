"""How many tasks keep the state of a query, and how their number is changed between two runs.

Spark divides state by shuffle partitions, as many as at the first start of a query, whatever a session's setting is. To
change their number it writes all state anew, in a batch of its own. A key bucket stays whole.
"""

import logging

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from ....dsl.errors import SystemProblem, UsageError
from ....dsl.validation import explain
from ..key_buckets import KeyBuckets
from ..lowering.query_plan import QueryPlan
from .checkpoint_log import is_between_batches, is_dividing_state, shuffle_partitions
from .java_process import reason

_log = logging.getLogger(__name__)


def check_tasks(tasks: int | None, buckets: KeyBuckets, at: object) -> None:
    """Raise UsageError for a number of tasks that key buckets cannot be shared by evenly; `at` is the pipeline's
    origin."""
    if tasks is not None and buckets.balanced and buckets.count % tasks:
        near = sorted((n for n in range(1, buckets.count + 1) if buckets.count % n == 0), key=lambda n: abs(n - tasks))
        wrong = f"spark_shuffle_partitions={tasks}, where the query has {buckets.count} key buckets"
        remedy = f"set it to {' or '.join(map(str, sorted(near[:2])))}, or leave it out"
        raise UsageError(explain(wrong, "a divisor of their number, so that all tasks have equally many", remedy, at))


def tasks_of(query: QueryPlan, session: SparkSession, wanted: int | None) -> int:
    """The number of tasks that keep the state of a query, which is about to start. If it is to be another than before,
    the state is distributed anew."""
    before = shuffle_partitions(query.checkpoint)
    if before is None:
        return wanted or query.buckets.partitions(session.sparkContext.defaultParallelism)
    if is_dividing_state(query.checkpoint):
        _log.warning("a run of %s was ended while state was distributed over %d tasks", query.plan.name, before)
        _distribute(query, session, before)
    if wanted is None or wanted == before:
        return before
    if not is_between_batches(query.checkpoint):
        _log.warning(
            "the last batch of %s was cut off, and is run again with %d tasks as before; the next run may have %d",
            query.plan.name,
            before,
            wanted,
        )
        return before
    _distribute(query, session, wanted)
    return wanted


def _distribute(query: QueryPlan, session: SparkSession, tasks: int) -> None:
    """Distribute the state over so many tasks, or end what has begun to do so."""
    _log.warning("the state of %s is distributed over %d tasks", query.plan.name, tasks)
    # Spark makes the coordinator of its state stores along with this. Else they ask for one that there is not, if no
    # query has run before.
    _ = session.streams.active
    try:
        session._streamingCheckpointManager.repartition(str(query.checkpoint.absolute()), tasks)
    except (PySparkException, Py4JJavaError) as error:
        wrong = f"Spark cannot distribute the state in {query.folder} over {tasks} tasks: {reason(error)}"
        remedy = "leave out spark_shuffle_partitions: the query goes on as before if nothing was written yet"
        raise SystemProblem(explain(wrong, "a checkpoint that Spark can write anew", remedy)) from error
