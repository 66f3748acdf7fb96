"""The clock of a query on Spark, without Spark."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the clock is a source of Spark's")

from pyspark.sql.streaming.datasource import ReadAllAvailable

from fluvial.runtime.spark.clock_source import ClockReader, tell_end


def test_an_end_told_before_a_crash_waits_for_the_closing_batch_of_a_later_run(tmp_path: Path) -> None:
    file, start = tmp_path / "clock", {"ends": 0}
    tell_end(file)
    reading, closing = (ClockReader(file, closing=told) for told in (False, True))
    assert reading.latestOffset(start, ReadAllAvailable()) == start
    tell_end(file)
    end = closing.latestOffset(start, ReadAllAvailable())
    assert len(closing.partitions(start, end)) == 1
