"""The right to run a pipeline with the state in a folder."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the Spark engine is tested where pyspark is installed")

from explained import assert_explains, error_of
from fluvial.dsl import SystemProblem
from fluvial.runtime.spark.state_claim import claim_state

URL = "hdfs://namenode:8020/fluvial"


@pytest.mark.parametrize("again", [URL, URL + "/"])
def test_a_process_runs_a_pipeline_once_at_a_url(again: str) -> None:
    def second() -> None:
        with claim_state(again, "visits", f"kafka with its state in {again}"):
            pytest.fail("both have it")

    with claim_state(URL, "visits", "kafka"):
        refused = error_of(second, SystemProblem)
        assert_explains(
            refused, f"running on kafka with its state in {again} already", None, "one run", "stop the other"
        )
        with claim_state(URL, "another", "kafka"), claim_state(URL + "2", "visits", "kafka"):
            pass
    with claim_state(again, "visits", "kafka"):
        pass


def test_a_run_that_has_failed_leaves_the_right_to_the_next() -> None:
    with pytest.raises(SystemExit), claim_state(URL, "visits", "kafka"):
        raise SystemExit
    with claim_state(URL, "visits", "kafka"):
        pass


def test_a_folder_has_a_lock(tmp_path: Path) -> None:
    def second() -> None:
        with claim_state(tmp_path, "visits", f"the state in {tmp_path}"):
            pytest.fail("both have it")

    with claim_state(tmp_path, "visits", "kafka"):
        assert "running on the state in" in str(error_of(second, SystemProblem))
