"""The real log on Spark, in several batches and processes, stopped between two of them."""

import gzip
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from engines.targets import contents, write
from examples import visitor_sessions
from fluvial.dsl import Pipeline
from fluvial.dsl.operators import Map
from fluvial.planner import Settings
from fluvial.runtime import Progress, run
from fluvial.runtime.systems import LogSystem
from oracle.visits import DATA, in_order, sessions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def noting(fn: Callable[[Any], Any], seen: Path) -> Callable[[Any], Any]:
    """The function; each process that calls it leaves a file named after itself."""

    @wraps(fn)
    def noted(value: Any) -> Any:
        (seen / str(os.getpid())).touch()
        return fn(value)

    return noted


def watched(seen: Path) -> Pipeline:
    """The pipeline of the example, with every map noted."""
    pipeline = Pipeline("visitor-sessions", on_error=visitor_sessions.pipeline.on_error)
    for operator in visitor_sessions.pipeline.operators:
        noted = replace(operator, fn=noting(operator.fn, seen)) if isinstance(operator, Map) else operator
        pipeline._graph.put(noted)
    return pipeline


@pytest.mark.skipif(not DATA.exists(), reason=f"{DATA.name} is not beside the repository")
def test_the_real_log_in_batches_with_a_stop_between(tmp_path: Path, spark: "SparkSession") -> None:
    seen = tmp_path / "seen"
    seen.mkdir()
    with gzip.open(DATA) as file:
        lines = file.read().splitlines()
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"access-log": [[(None, line, 0, ()) for line in lines]]})
    settings = Settings(spark_batch_records=3000)

    def stop_soon(progress: Progress) -> None:
        if progress.read and progress.phase == "running":
            os.kill(os.getpid(), signal.SIGTERM)

    first = run(watched(seen), engine="spark", system=system, settings=settings, progress=stop_soon, spark=spark)
    second = run(watched(seen), engine="spark", system=system, settings=settings, until="end", spark=spark)
    found = [msgspec.json.decode(record[1] or b"") for record in contents(system, "sessions")]
    assert in_order(found) == in_order(sessions([line.decode() for line in lines]))
    assert 0 < first.read["access-log"] < len(lines)
    assert first.read["access-log"] + second.read["access-log"] == len(lines)
    assert len(list(seen.iterdir())) >= 2
