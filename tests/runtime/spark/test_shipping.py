"""How a plan comes to Spark's workers."""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="plans are pickled by what Spark brings")

from fluvial.dsl import Pipeline, SystemProblem
from fluvial.planner import plan
from fluvial.runtime.spark.lowering import levels
from fluvial.runtime.spark.shipping import Cargo, Shipment, laid_down, pack, unpack


def shipment(folder: Path) -> Shipment:
    pipeline = Pipeline("copy")
    pipeline.stream("in", value=str).send_to(folder.name)
    made = plan(pipeline)
    return laid_down(pack(Cargo(made, levels(made, list(made.stages), 1), 1)), folder)


def test_a_plan_is_read_from_where_it_was_laid_down(tmp_path: Path) -> None:
    sent = shipment(tmp_path)
    assert sent.data == b""
    assert unpack(sent)[0].plan.name == "copy"


def test_a_worker_that_does_not_see_the_folder_says_so(tmp_path: Path) -> None:
    sent = shipment(tmp_path)
    Path(sent.file).unlink()
    with pytest.raises(SystemProblem, match="expected: a folder that every worker sees"):
        unpack(sent)


def test_a_plan_that_another_run_has_put_in_its_place_is_refused(tmp_path: Path) -> None:
    sent = shipment(tmp_path)
    Path(sent.file).write_bytes(b"another")
    with pytest.raises(SystemProblem, match="has changed since the run began"):
        unpack(sent)
