"""The log as the end of a query, without Spark: what a worker stages, the driver publishes."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import contents
from fluvial.runtime.spark.connectors.log_sink import LogSink, SinkOptions
from fluvial.runtime.spark.rows import arrow_batch, messages_of
from fluvial.runtime.spark.worker.outputs import as_rows
from fluvial.runtime.systems import LogSystem


def staged(folder: Path, value: bytes) -> bytes:
    """The token of a transaction that a worker has staged."""
    sink = LogSink(SinkOptions(str(folder), False, {"out": 1}, "p@1", ""))
    rows = list(as_rows(messages_of("out", 0, [0], [(b"k", value, 1, ())]), 1, 0))
    (made,) = sink.stage([arrow_batch(rows)])
    token: bytes = made.column("token")[0].as_py()
    return token


def test_a_worker_goes_on_with_a_log_that_was_removed_and_made_anew(tmp_path: Path) -> None:
    """A session keeps its workers; somebody removes the folder between two runs, and feeds the log again."""
    folder = tmp_path / "log"
    for value in (b"first", b"second", b"third"):
        shutil.rmtree(folder, ignore_errors=True)
        system = LogSystem(folder, fsync=False)
        system.admin().create("out", 1)
        token = staged(folder, value)
        with closing(system.producer()) as producer:
            producer.publish(token)
        assert [record[1] for record in contents(system, "out")] == [value]
