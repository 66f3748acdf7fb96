"""What is told of a query in a batch, on the embedded log and without Spark."""

from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest

pytest.importorskip("pyspark", reason="the query is one of Spark's")

from engines.targets import write
from fluvial.dsl import Pipeline, SystemProblem
from fluvial.planner import plan
from fluvial.runtime.kernel.time.bounds import END, START
from fluvial.runtime.spark.batch_report import BatchMetrics
from fluvial.runtime.spark.batch_times import METRICS_PROPERTY
from fluvial.runtime.spark.connectors.log import LogConnection
from fluvial.runtime.spark.connectors.log_source import LogOffsets
from fluvial.runtime.spark.counts import Counts
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.query_plan import QueryPlan
from fluvial.runtime.spark.lowering.shipped_plan import ShippedPlan
from fluvial.runtime.spark.query.checkpoint_log import PLANNED
from fluvial.runtime.spark.query.job_tasks import NO_TASKS
from fluvial.runtime.spark.query.query_status import QueryStatus
from fluvial.runtime.systems import LogSystem

if TYPE_CHECKING:
    from pyspark import SparkContext

    from fluvial.runtime.spark.lowering.levels import Levels


class Context:
    """A context of Spark's that remembers what the jobs of this thread are told."""

    def __init__(self) -> None:
        self.properties: dict[str, str] = {}
        self.tags: set[str] = set()

    def setLocalProperty(self, name: str, value: str) -> None:  # noqa: N802
        self.properties[name] = value

    def getLocalProperty(self, name: str) -> str:  # noqa: N802
        return f"{name} of this start"

    def addJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.add(tag)

    def removeJobTag(self, tag: str) -> None:  # noqa: N802
        self.tags.remove(tag)

    @property
    def metrics(self) -> BatchMetrics:
        return msgspec.json.decode(self.properties[METRICS_PROPERTY], type=BatchMetrics)


def numbers(count: int) -> list[Any]:
    return [(None, b"%d" % number, 0, ()) for number in range(count)]


def status_of(folder: Path, context: Context, connection: LogConnection, patience: float = 60.0) -> QueryStatus:
    """The status of a query that is to read up to (4, 1) in its batch 0, and to (9, 2) in batch 1."""
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).send_to("out")
    planned = folder / "spark" / PLANNED
    planned.mkdir(parents=True)
    for batch, reached in enumerate([[4, 1], [9, 2]]):
        offsets = msgspec.json.encode(LogOffsets({"in": reached})).decode()
        (planned / str(batch)).write_text(f"v1\n{{}}\n{offsets}")
    made = plan(pipeline, partitions={"in": 2})
    levels, shipped = cast("Levels", None), ShippedPlan("", b"")
    query = QueryPlan(made, levels, KeyBuckets(8), shipped, folder, "p@1", ("in",), {"in": [0, 0]})
    return QueryStatus(query, connection, cast("SparkContext", context), patience)


@pytest.fixture
def log(tmp_path: Path) -> LogConnection:
    """A log whose partitions of "in" have 9 and 3 messages."""
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"in": [numbers(9), numbers(3)]})
    return LogConnection(system)


def test_tasks_are_told_what_is_left_behind_their_batch(tmp_path: Path, log: LogConnection) -> None:
    context = Context()
    status = status_of(tmp_path / "query", context, log)
    lags = []
    for batch in range(2):
        with status.in_batch(batch, {}):
            lags.append(context.metrics.lags)
    assert lags == [{"in": 7}, {"in": 1}]


def test_watermarks_only_grow_but_where_a_partition_is_idle_no_more(tmp_path: Path, log: LogConnection) -> None:
    context = Context()
    status = status_of(tmp_path / "query", context, log)
    status.finish(Counts({}, {"in/0": 70, "in/1": 50}), {"by/": 50})
    # A task knows the messages of its batch alone.
    status.finish(Counts({}, {"in/0": 60}), {"by/": 70, "in/1": 90})
    assert status.watermarks == {"in/0": 70, "in/1": 90, "by/": 70}
    with status.in_batch(0, {"by/": 80}):
        assert context.metrics.watermarks == {"in": 50, "by": 80}


def test_without_a_message_and_behind_the_end_there_is_no_watermark(tmp_path: Path, log: LogConnection) -> None:
    context = Context()
    with status_of(tmp_path / "query", context, log).in_batch(0, {"in/0": START, "by/": END}):
        assert context.metrics.watermarks == {}


def test_a_system_that_does_not_tell_its_ends_fails_no_batch(tmp_path: Path, log: LogConnection) -> None:
    class Away(LogConnection):
        def offsets(self, lines: Any) -> dict[str, list[int]]:
            raise SystemProblem(f"the cluster is out of reach, for {lines}")

    context = Context()
    with status_of(tmp_path / "query", context, Away(log.system)).in_batch(0, {}):
        assert context.metrics.lags == {}


def test_a_system_whose_ends_are_not_reported_in_time_holds_up_no_batch_and_is_not_asked_again_meanwhile(
    tmp_path: Path, log: LogConnection
) -> None:
    answers, asked, admin = Event(), list[str](), log.system.admin()

    def ends(stream: str) -> list[int]:
        asked.append(stream)
        assert answers.wait(60)
        return admin.ends(stream)

    system = SimpleNamespace(admin=lambda: SimpleNamespace(ends=ends))
    connection = SimpleNamespace(system=system, counts=log.counts, offsets=log.offsets)
    context = Context()
    status = status_of(tmp_path / "query", context, cast("LogConnection", connection), patience=0.05)
    for _ in range(2):
        with status.in_batch(0, {}):
            assert context.metrics.lags == {}
    assert asked == ["in"]
    answers.set()


def test_a_batch_has_a_tag_by_which_its_jobs_are_found_until_it_ends(tmp_path: Path, log: LogConnection) -> None:
    context = Context()
    status = status_of(tmp_path / "query", context, log)
    tags = []

    def fails(batch: int) -> None:
        with status.in_batch(batch, {}):
            tags.append(context.tags.copy())
            raise ZeroDivisionError

    for batch in range(2):
        with pytest.raises(ZeroDivisionError):
            fails(batch)
    assert [len(found) for found in tags] == [1, 1]
    assert tags[0] != tags[1]
    assert (context.tags, status.tasks()) == (set(), NO_TASKS)
