"""The session that a run gets: beside those of the user, in a Spark that is there or that it starts."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from traceback import walk_stack
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from pyspark import SparkConf

import sessions
from fluvial.planner import Settings
from fluvial.runtime.needs import missing
from fluvial.runtime.spark import java_process
from fluvial.runtime.spark.java_process import launched
from fluvial.runtime.spark.session import session_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

of_spark = pytest.mark.spark
TASKS = "spark.sql.shuffle.partitions"


@pytest.fixture
def interrupted() -> Iterator[Callable[[], None]]:
    """Interrupt the main thread as Ctrl-C does, while it waits for a result; return when it knows."""
    known, main = threading.Event(), threading.main_thread().ident or 0

    def interrupt(*_: object) -> None:
        known.set()
        raise KeyboardInterrupt

    def cause() -> None:
        while all(frame.f_code.co_name != "result" for frame, _ in walk_stack(sys._current_frames()[main])):
            time.sleep(0.001)
        signal.pthread_kill(main, signal.SIGINT)
        assert known.wait(30)

    before = signal.signal(signal.SIGINT, interrupt)
    yield cause
    signal.signal(signal.SIGINT, before)


def test_java_that_an_interrupt_meets_in_its_start_is_told_to_end(
    interrupted: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for its end at its standard input."""
    java = BytesIO()

    def launch(*_: Any) -> Any:
        interrupted()
        return SimpleNamespace(proc=SimpleNamespace(stdin=java))

    monkeypatch.setattr(java_process, "launch_gateway", launch)
    with pytest.raises(KeyboardInterrupt):
        launched(SparkConf(loadDefaults=False))
    assert java.closed


@of_spark
@pytest.mark.timeout(300)
def test_runs_at_the_same_time_have_their_own_settings_and_change_none_of_the_users(spark: "SparkSession") -> None:
    spark.conf.set("spark.sql.streaming.minBatchesToRetain", "7")
    try:
        before = spark.conf.getAll
        first, second = (session_for(spark, Settings(spark_shuffle_partitions=tasks)) for tasks in (3, 5))
        with first as one, second as other:
            assert [session.conf.get(TASKS) for session in (one, other, spark)] == ["3", "5", "2"]
            assert one.conf.get("spark.sql.streaming.minBatchesToRetain") == "7"
        assert spark.conf.getAll == before
    finally:
        spark.conf.unset("spark.sql.streaming.minBatchesToRetain")


@of_spark
@pytest.mark.timeout(300)
def test_a_run_starts_a_spark_and_finds_those_that_are_there(tmp_path: Path) -> None:
    if need := missing("spark"):
        pytest.skip(f"{need.missing}: {need.remedy}")
    found = subprocess.run(
        [sys.executable, sessions.__file__, str(tmp_path)],
        env={**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        check=False,
    )
    seen = [json.loads(line) for line in found.stdout.splitlines()]
    assert seen == [
        [True, True, True],
        [["3", "5"], 3, True, True, True],
        ["the session handed in as spark= is stopped", {"out": 1}],
    ], found.stderr
