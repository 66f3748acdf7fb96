"""A topic that has got more partitions since a run was planned is read as it was planned."""

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import write
from fluvial.dsl import Pipeline
from fluvial.planner import plan
from fluvial.runtime.spark.query.input_offsets import input_ends, input_starts
from fluvial.runtime.systems import MemorySystem


def test_partitions_that_were_not_planned_are_left_out() -> None:
    pipeline, system = Pipeline("p"), MemorySystem()
    pipeline.stream("in", value=str).send_to("out")
    planned = plan(pipeline, partitions={"in": 2})
    write(system, {"in": [[(None, b"a", 1, ())], [], [(None, b"b", 1, ())]]})
    assert input_starts(planned, system.admin(), "in") == [0, 0]
    assert input_ends(planned, system.admin(), "in") == [1, 0]
