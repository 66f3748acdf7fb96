"""A query that runs notices that its checkpoint is no longer its own."""

from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, SystemProblem
from fluvial.planner import plan
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.lowering import levels
from fluvial.runtime.spark.lowering.packaging import PlanBundle, pack
from fluvial.runtime.spark.lowering.query_plan import QueryPlan
from fluvial.runtime.spark.query.checkpoint_record import group_of
from fluvial.runtime.spark.query.query import check_own


def test_a_query_whose_checkpoint_was_reset_or_taken_does_not_go_on(tmp_path: Path) -> None:
    """Behind a URL no lock keeps a reset away from a run, nor the run after it."""
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    made = plan(pipeline, partitions={"in": 1})
    found = levels(made, list(made.stages), 1)
    shipped = pack(PlanBundle(made, found, KeyBuckets(1), Size(1, 1)))
    folder = tmp_path / "query"
    folder.mkdir()
    (folder / "identity").write_text("first")
    group = group_of(made, folder)
    assert group is not None
    query = QueryPlan(made, found, KeyBuckets(1), shipped, folder, group, ("in",), {})
    check_own(query)

    (folder / "identity").write_text("second")
    error = error_of(lambda: check_own(query), SystemProblem)
    assert_explains(error, "was removed or replaced", None, "a checkpoint that nobody touches", "start anew")
    check_own(replace(query, group=group_of(made, folder) or ""))
    rmtree(folder)
    error_of(lambda: check_own(query), SystemProblem)
    folder.mkdir()
    (folder / "identity").write_text("first")
    (folder / "run").write_text("one")
    check_own(replace(query, run="one"))
    error = error_of(lambda: check_own(replace(query, run="two")), SystemProblem)
    assert_explains(error, "another run of pipeline 'p' has begun", None, "one run of a pipeline", "the later run")
