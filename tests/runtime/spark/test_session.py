"""The session that a run gets: beside those of the user, in a Spark that is there or that it starts."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

import sessions
from fluvial.planner import Settings
from fluvial.runtime.needs import missing
from fluvial.runtime.spark.session import session_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]
TASKS = "spark.sql.shuffle.partitions"


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
