"""What Spark's processes load of a level."""

import subprocess
import sys
from typing import Any

import pyspark.cloudpickle

from fluvial.dsl import Pipeline
from fluvial.planner import plan
from fluvial.runtime.kernel.state_cache import Size
from fluvial.runtime.spark.key_buckets import KeyBuckets
from fluvial.runtime.spark.lowering.lowering import levels
from fluvial.runtime.spark.lowering.packaging import PlanBundle, pack
from fluvial.runtime.spark.worker.level_processor import LevelProcessor
from fluvial.runtime.spark.worker.outputs import RowOutputs

_cloudpickle: Any = pyspark.cloudpickle  # has no types

LOADED = """
import pickle, sys
pickle.load(sys.stdin.buffer)
print(*(name for name in ("fluvial.dsl", "fluvial.planner", "fluvial.runtime.kernel", "pandas") if name in sys.modules))
"""


def test_a_process_that_asks_for_the_names_of_the_state_loads_neither_the_kernel_nor_pandas() -> None:
    pipeline = Pipeline("numbers")
    pipeline.stream("in", value=str).map(str.upper).send_to("out")
    planned = plan(pipeline)
    found = levels(planned, list(planned.stages), 4)
    shipped = pack(PlanBundle(planned, found, KeyBuckets(4), Size(1, 1)))
    processor = _cloudpickle.dumps(LevelProcessor(shipped, 1, RowOutputs()))
    done = subprocess.run([sys.executable, "-c", LOADED], input=processor, capture_output=True, check=True)
    assert done.stdout.split() == []
