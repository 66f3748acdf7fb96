"""Errors of users' functions in a worker reach the driver, whatever they are."""

import sys
import traceback
from collections.abc import Callable

import pytest

from engines.spark_in_process import queries
from fluvial.dsl import MessageError, Pipeline, dead_letter
from fluvial.planner import plan
from fluvial.runtime.spark.worker.error_texts import sendable_errors
from fluvial.runtime.systems.contract import RecordBatch

BATCH = RecordBatch("in", 0, range(1), [(b"k", b"1", 1, ())])


def leave(_: int) -> int:
    sys.exit(3)


def refuse(_: int) -> int:
    raise ValueError("half of a pair: \ud83d")


def at_level_zero(function: Callable[[int], int], pipeline: Pipeline) -> None:
    pipeline.stream("in", key=str, value=int).map(function).send_to("out")


def behind_a_shuffle(function: Callable[[int], int], pipeline: Pipeline) -> None:
    keyed = pipeline.stream("in", key=str, value=int).partition_by(str, id="by", key_type=str, value=int)
    keyed.map(function).send_to("out")


PLACES = pytest.mark.parametrize("place", [at_level_zero, behind_a_shuffle])


@PLACES
def test_a_function_that_exits_is_reported_as_on_the_local_engine(
    place: Callable[[Callable[[int], int], Pipeline], None],
) -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    place(leave, pipeline)
    (query,) = queries(plan(pipeline, partitions={"in": 1}))
    with pytest.raises(MessageError, match=r"sys\.exit\(3\) was called during the run of 'p'[\s\S]*test_error_texts"):
        query.batch([BATCH])


@PLACES
def test_an_error_with_half_of_a_surrogate_pair_can_be_sent(
    place: Callable[[Callable[[int], int], Pipeline], None],
) -> None:
    pipeline = Pipeline("p")
    place(refuse, pipeline)
    (query,) = queries(plan(pipeline, partitions={"in": 1}))
    with pytest.raises(MessageError, match=r"half of a pair: \\ud83d") as raised:
        query.batch([BATCH])
    assert "".join(traceback.format_exception(raised.value)).encode()


def test_so_can_one_that_is_not_ours() -> None:
    with pytest.raises(RuntimeError, match=r"ValueError: half: \\udcff") as raised, sendable_errors("p"):
        raise ValueError("half: \udcff")
    assert "".join(traceback.format_exception(raised.value)).encode()


def test_any_other_error_keeps_its_chain() -> None:
    with pytest.raises(ValueError, match="again") as raised, sendable_errors("p"):
        raise ValueError("again") from KeyError("first")
    assert isinstance(raised.value.__cause__, KeyError)
