"""Random pipelines over DataFrames: however their rows are divided and in whatever order they lie, what is written is
what the oracle writes of the same messages, sorted by time."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engines.comparing import assert_same
from engines.spark_in_process import BUCKETS, Times, from_frames, in_a_batch_job
from engines.targets import PATIENT
from fluvial.dsl.message import Record
from fluvial.runtime.kernel.code.source_code import times_reader
from fluvial.runtime.spark.worker.by_time import by_bytes
from generators.building import build
from generators.cases import Case, cases, expected
from generators.draft import Extra
from generators.how_many import examples

SOME = settings(max_examples=examples(40), deadline=None, suppress_health_check=PATIENT)
EXTRAS = pytest.mark.parametrize("extras", [(), ("joins",), ("tables", "joins"), ("processors",)], ids=str)


def times_of(case: Case) -> Times:
    """The event time of each record; the timestamp of one that is to fail."""
    readers = {source.stream: times_reader(source) for source in build(case.description).sources}

    def time_of(stream: str, record: Record) -> int:
        try:
            return readers[stream]([record[0]], [record[1]], [record[2]])[0]
        except Exception:
            return record[2]

    return time_of


def by_time(case: Case) -> Case:
    """The case with its messages in the order in which those of one key are processed."""
    time_of = times_of(case)
    inputs = {
        stream: [sorted((record for part in parts for record in part), key=partial(_order, time_of, stream))]
        for stream, parts in case.inputs.items()
    }
    return replace(case, inputs=inputs, partitions=dict.fromkeys(case.partitions, 1))


def _order(time_of: Times, stream: str, record: Record) -> Any:
    return time_of(stream, record), by_bytes(record[0], record[1])


@pytest.mark.slow
@EXTRAS
def test_a_batch_job_writes_what_the_oracle_does(extras: tuple[Extra, ...]) -> None:
    @SOME
    @given(cases("on_time", extras=extras), st.integers(1, 3), st.integers(1, 5))
    def check(case: Case, tasks: int, step: int) -> None:
        assert_same(in_a_batch_job(case, tasks, step), expected(by_time(case), BUCKETS))

    check()


@pytest.mark.slow
@EXTRAS
def test_so_do_streaming_frames(extras: tuple[Extra, ...]) -> None:
    @SOME
    @given(cases("on_time", extras=extras), st.integers(1, 3), st.integers(1, 20))
    def check(case: Case, tasks: int, batch: int) -> None:
        assert_same(from_frames(case, times_of(case), batch, tasks), expected(by_time(case), BUCKETS))

    check()
