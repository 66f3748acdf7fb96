"""Random cases: that they can be planned, printed, pickled and judged, and mean what their mode says."""

import ast
import pickle
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

import cases as case_module
import descriptions
from cases import Case, cases, expected, judge, murmur2, partition_of
from comparing import difference
from descriptions import Description, Map, Source, build
from fluvial.planner import plan
from oracle import OutputMessage, Outputs, run_oracle
from pipelines import pipelines

SOME = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@SOME
@given(cases())
def test_every_case_can_be_planned(case: Case) -> None:
    made = plan(build(case.description), partitions=case.partitions)
    assert made.pipeline.on_error.action == case.description.on_error
    assert {stream: len(records) for stream, records in case.inputs.items()} == dict(case.partitions)
    if case.description.mode == "late":
        assert {stream.partitions for stream in made.streams} == {1}


@SOME
@given(cases())
def test_a_case_prints_as_what_makes_it_again(case: Case) -> None:
    ast.parse(repr(case), mode="eval")
    names: dict[str, Any] = {**vars(descriptions), **vars(case_module)}
    assert eval(repr(case), names) == case


@SOME
@given(cases(mode="on_time"))
def test_on_time_nothing_is_late_and_the_order_of_partitions_means_nothing(case: Case) -> None:
    outputs = expected(case)
    assert "late" not in outputs
    assert not any(b'"kind":"late"' in (message.value or b"") for stream in outputs.values() for message in stream)
    turned = {stream: list(reversed(records)) for stream, records in reversed(list(case.inputs.items()))}
    assert difference(run_oracle(build(case.description), turned), outputs) == ""


@SOME
@given(pipelines())
def test_the_functions_of_a_pipeline_can_be_pickled(description: Description) -> None:
    cloudpickle = pytest.importorskip("pyspark.cloudpickle")
    operators = build(description).operators
    again = pickle.loads(cloudpickle.dumps(operators))
    assert [operator.id for operator in again] == [operator.id for operator in operators]


@SOME
@given(cases(negative=False))
def test_timestamps_are_after_1970_where_they_must_be(case: Case) -> None:
    for records in (records for stream in case.inputs.values() for records in stream):
        assert all(timestamp >= 0 for _, _, timestamp, _ in records)


def test_a_target_that_loses_a_message_is_found_out() -> None:
    description = Description((Source("a"),), (Map(0, "plus", 1),))
    case = Case(description, {"a": [[(None, b'{"k":"a","n":1,"at":5}', 5, ())]]}, {"a": 1})
    right: Outputs = {"out-1": [OutputMessage(None, b'{"k":"a","n":2,"at":5}', 5, ())]}
    judge(case, lambda _: right)
    with pytest.raises(AssertionError, match="missing"):
        judge(case, lambda _: {})


@pytest.mark.parametrize(
    ("key", "hashed"),
    [(b"21", -973932308), (b"foobar", -790332482), (b"a-little-bit-long-string", -985981536), (b"abc", 479470107)],
)
def test_keys_are_hashed_as_kafka_does(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF
    assert partition_of(key, 3) == (hashed & 0x7FFFFFFF) % 3
