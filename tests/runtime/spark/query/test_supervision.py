"""How queries are watched, with queries that are not Spark's."""

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from fluvial.dsl.errors import SystemProblem
from fluvial.runtime.spark.lowering.query_plan import QueryPlan
from fluvial.runtime.spark.query.batch_sizing import BatchSizer
from fluvial.runtime.spark.query.checkpoint_log import PLANNED
from fluvial.runtime.spark.query.connection import Connection
from fluvial.runtime.spark.query.progress import QueryMonitor
from fluvial.runtime.spark.query.supervision import run_queries


class BusyQuery:
    """A query that goes from batch to batch until it is stopped; the second one of a test has nothing more to do."""

    def __init__(self, active: bool) -> None:
        self.isActive = active

    def awaitTermination(self, _: float) -> bool:  # noqa: N802 - the name that Spark gives it
        return not self.isActive

    def exception(self) -> None:
        return None

    def stop(self) -> None:
        self.isActive = False


def test_a_query_that_is_never_seen_between_two_batches_is_given_its_other_bound(tmp_path: Path) -> None:
    (tmp_path / PLANNED).mkdir()
    (tmp_path / PLANNED / "0").touch()
    sizer = BatchSizer(timedelta(milliseconds=20), 1000)
    begun: list[BusyQuery] = []
    bounds: list[int] = []

    def begin(_: object) -> BusyQuery:
        bounds.append(sizer.begin())
        begun.append(BusyQuery(active=not begun))
        for _ in range(4 if begun[-1].isActive else 0):
            sizer.took(0.1, 1000)
        return begun[-1]

    plan = cast(QueryPlan, SimpleNamespace(group="q", checkpoint=tmp_path))
    connection = cast(Connection, SimpleNamespace(may_stop=lambda _: True))
    monitor = cast(QueryMonitor, SimpleNamespace(stop=lambda: False, report_progress=lambda: None))
    run_queries([plan], begin, connection, monitor, timedelta(seconds=30), {"q": sizer})  # type: ignore[arg-type]
    assert bounds == [1000, 200]


class SlowQuery:
    """A query that has failed, since a Python process came up too slowly, before or after its first batch."""

    isActive = False  # noqa: N815 - the name that Spark gives it

    def __init__(self, batches: int) -> None:
        self.lastProgress = {"batchId": batches - 1} if batches else None

    def exception(self) -> Exception:
        return RuntimeError("Python worker failed to connect back.")

    def stop(self) -> None:
        """It has ended."""


@pytest.mark.parametrize(("batches", "starts"), [([0, 0, 0], 2), ([1, 3, 1, 0], 4), ([0, 1, 0], 3)])
def test_slow_starts_count_together_if_no_batch_was_between(batches: list[int], starts: int) -> None:
    left, begun = iter(batches), list[SlowQuery]()

    def begin(_: object) -> SlowQuery:
        begun.append(SlowQuery(next(left)))
        return begun[-1]

    plan, connection = cast(QueryPlan, SimpleNamespace()), cast(Connection, SimpleNamespace())
    monitor = cast(QueryMonitor, SimpleNamespace(stop=lambda: False, report_progress=lambda: None))
    with pytest.raises(SystemProblem, match="2 times, and each time a Python process"):
        run_queries([plan], begin, connection, monitor, timedelta(seconds=20))  # type: ignore[arg-type]
    assert len(begun) == starts
