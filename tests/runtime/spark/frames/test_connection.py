"""The sink of outputs that are DataFrames: what it has Spark do in a batch, on rows that are none of Spark's."""

from pathlib import Path
from typing import Any, Self, cast

import pytest

pytest.importorskip("pyspark", reason="the sink is Spark's")

from fluvial.runtime.data_frames.bindings import NO_DATA_FRAMES
from fluvial.runtime.spark.batch_report import BatchReport
from fluvial.runtime.spark.connectors.written_counts import CountingSink, read_counts, reports_of
from fluvial.runtime.spark.counts import Counts
from fluvial.runtime.spark.frames.connection import FrameSink
from fluvial.runtime.spark.worker.outputs import RowOutputs, report_row


class Rows:
    """The rows of a batch, which are a report. Each `collect` is a job of Spark's."""

    def __init__(self) -> None:
        self.jobs = 0

    def persist(self) -> Self:
        return self

    def unpersist(self) -> None:
        """They are kept by nobody."""

    def where(self, _: str) -> Self:
        return self

    def select(self, _: str) -> Self:
        return self

    def collect(self) -> list[Any]:
        self.jobs += 1
        _, _, block = report_row(0, BatchReport(Counts({"read": {"in": 3}})))
        return [(block,)]


class Publishing:
    """A sink that has to see the rows of a batch to publish them."""

    outputs = RowOutputs()

    def run(self, rows: Any, batch: int) -> BatchReport:
        assert batch == 7
        return reports_of(rows)


def test_the_reports_of_a_batch_are_collected_once_where_nothing_else_is_to_be_published(tmp_path: Path) -> None:
    query: Any = None  # no output is a DataFrame
    for inner, jobs in ((CountingSink(RowOutputs(), tmp_path / "counted"), 1), (Publishing(), 2)):
        rows = Rows()
        report = FrameSink(inner, query, NO_DATA_FRAMES, {}, None).run(cast("Any", rows), 7)
        assert (rows.jobs, report.counts.by_kind) == (jobs, {"read": {"in": 3}})
    assert read_counts(tmp_path / "counted").by_kind == {"read": {"in": 3}}
