"""A conformance case, and the targets that it runs on."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from engines.apart import on_spark_kafka
from engines.comparing import assert_same
from engines.spark_in_process import lowered_pipeline
from engines.targets import driver_outputs, feed_whole, on_kafka, run_on
from fluvial.dsl import Pane, Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import Settings, plan
from fluvial.runtime.systems import LogSystem, MemorySystem
from fluvial.runtime.systems.provisioning import table_streams
from fluvial.runtime.testing import PipelineDriver
from oracle.interpreter import Inputs, Outputs, run_oracle


@dataclass(frozen=True)
class Gap:
    """What a target cannot do yet, or does otherwise: the error that shows it, and the reason."""

    raises: type[Exception]
    reason: str


@dataclass(frozen=True)
class Conformance:
    """A pipeline with inputs, by stream and partition, and what it must write: the values of each output, as bytes.

    `gaps` are the targets that fail it. A case that holds in spite of its gap fails: the gap is to be removed.
    """

    id: str
    pipeline: Callable[[], Pipeline]
    inputs: Inputs
    expected: Mapping[str, Sequence[bytes]]
    gaps: Mapping[str, Gap]

    def __str__(self) -> str:
        return self.id


def on_driver(case: Conformance, _: Any, elasticity: int = 1) -> Outputs:
    partitions = {stream: len(parts) for stream, parts in case.inputs.items()}
    settings = Settings(elasticity=elasticity)
    with PipelineDriver(case.pipeline(), partitions=partitions, settings=settings) as driver:
        feed_whole(driver, case.inputs)
        driver.end()
        return driver_outputs(driver)


def on_local_log(case: Conformance, _: Any, elasticity: int = 1) -> Outputs:
    with TemporaryDirectory() as folder:
        settings = Settings(elasticity=elasticity)
        return run_on(LogSystem(Path(folder), fsync=False), case.pipeline(), case.inputs, settings)


def on_local_kafka(case: Conformance, request: Any, elasticity: int = 1) -> Outputs:
    settings = Settings(elasticity=elasticity)
    return on_kafka(request.getfixturevalue("broker"), case.pipeline(), case.inputs, settings)


def on_local_memory(case: Conformance, _: Any) -> Outputs:
    return run_on(MemorySystem(), case.pipeline(), case.inputs)


def on_oracle(case: Conformance, _: Any) -> Outputs:
    return run_oracle(case.pipeline(), case.inputs)


def on_spark_log(case: Conformance, request: Any) -> Outputs:
    session = request.getfixturevalue("spark")
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=False)
        return run_on(system, case.pipeline(), case.inputs, engine="spark", spark=session)


def in_levels_of_spark(case: Conformance, _: Any) -> Outputs:
    partitions = {stream: len(parts) for stream, parts in case.inputs.items()}
    tables = table_streams(plan(case.pipeline(), partitions=partitions))
    return lowered_pipeline(case.pipeline(), case.inputs, batch_records=1, first=tables)


def on_kafka_by_spark(case: Conformance, request: Any) -> Outputs:
    broker, session = request.getfixturevalue("broker"), request.getfixturevalue("spark")
    return on_spark_kafka(broker, session, case.pipeline(), case.inputs)


TARGETS: Mapping[str, tuple[Callable[[Conformance, Any], Outputs], tuple[pytest.MarkDecorator, ...]]] = {
    "driver": (on_driver, ()),
    "driver-split-in-2": (partial(on_driver, elasticity=2), ()),
    "driver-split-in-4": (partial(on_driver, elasticity=4), ()),
    "local-kafka": (on_local_kafka, (pytest.mark.kafka,)),
    "local-kafka-split-in-2": (partial(on_local_kafka, elasticity=2), (pytest.mark.kafka,)),
    "local-kafka-split-in-4": (partial(on_local_kafka, elasticity=4), (pytest.mark.kafka,)),
    "local-log": (on_local_log, ()),
    "local-log-split-in-2": (partial(on_local_log, elasticity=2), ()),
    "local-log-split-in-4": (partial(on_local_log, elasticity=4), ()),
    "local-memory": (on_local_memory, ()),
    "oracle": (on_oracle, ()),
    "spark-levels": (in_levels_of_spark, ()),
    "spark-kafka": (on_kafka_by_spark, (pytest.mark.spark, pytest.mark.kafka, pytest.mark.slow)),
    "spark-log": (on_spark_log, (pytest.mark.spark, pytest.mark.slow)),
}


RARE = ("spark-kafka", "local-kafka-split-in-2", "local-kafka-split-in-4", "local-log-split-in-2")
"""Where cases run at length alone: `tests/spark_engine/test_on_kafka.py` shows what Kafka adds to a run on Spark, and
`tests/local_engine/test_elasticity.py` what it adds to key buckets. Of two elasticities on the log one is usual."""


DEAR = ("spark-log", "local-kafka")
"""Where a case takes a hundred times as long as in this process. "spark-levels" runs the code of Spark's workers, and
"local-log" the local engine, which knows of no system more than its contract."""


def on_targets(cases: Sequence[Conformance], usual: Collection[str]) -> list[Any]:
    """The cases with their targets, as parameters `case` and `target` of a test. Spark and Kafka run those of the ids
    `usual` each time, one of each operator, and the others at length."""
    ids = {case.id for case in cases}
    assert ids.issuperset(usual), f"no case: {sorted({*usual} - ids)}"
    return [
        pytest.param(case, name, marks=[*marks, *_at_length(case, name, usual)], id=f"{case}-{name}")
        for name, (_, marks) in TARGETS.items()
        for case in cases
    ]


def _at_length(case: Conformance, target: str, usual: Collection[str]) -> list[pytest.MarkDecorator]:
    at_length = target in RARE or (target in DEAR and case.id not in usual)
    return [pytest.mark.long] if at_length else []


def check(case: Conformance, target: str, request: Any) -> None:
    """Run a case on a target, and compare values as multisets."""
    if gap := case.gaps.get(target):
        request.applymarker(pytest.mark.xfail(strict=True, raises=gap.raises, reason=gap.reason))
    written = TARGETS[target][0](case, request)
    assert_same(*(_values(side) for side in (written, _records(case.expected))))


def _records(values: Mapping[str, Sequence[bytes]]) -> dict[str, list[Record]]:
    return {stream: [(None, value, 0, ()) for value in found] for stream, found in values.items()}


def _values(outputs: Mapping[str, Sequence[Any]]) -> dict[str, list[Record]]:
    return {stream: [(None, record[1], 0, ()) for record in found] for stream, found in outputs.items()}


def told(pane: Pane[Any, Any]) -> str:
    """A pane as text: kind, key, window, value."""
    return f"{pane.kind} {pane.key} [{pane.window.start}, {pane.window.end}) {pane.value}"


def events(*messages: tuple[str, int]) -> list[Record]:
    """Records of keys and their times; the value is the key as text."""
    return [(key.encode(), key.encode(), time, ()) for key, time in messages]
