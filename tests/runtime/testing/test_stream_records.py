"""The streams of a driver as bytes: what is sent, and what any partition holds."""

import pytest

from fluvial.dsl import Pipeline, UsageError
from fluvial.dsl.message import Record
from fluvial.runtime.testing import PipelineDriver

WORDS: list[Record] = [(b"k", b"a", 7, ()), (b"k", b"b", 7, ())]


def copying() -> Pipeline:
    pipeline = Pipeline("copying")
    pipeline.stream("in", key=str, value=str).map(str.upper).send_to("out", value=str)
    return pipeline


def test_records_are_sent_and_read_as_bytes() -> None:
    with PipelineDriver(copying()) as driver:
        driver.records.send("in", WORDS)
        assert driver.records.read("out") == [(b"k", b"A", 7, ()), (b"k", b"B", 7, ())]


def test_without_a_partition_a_record_goes_to_that_of_its_key() -> None:
    with PipelineDriver(copying(), partitions=2) as driver:
        driver.records.send("in", WORDS)
        driver.send("in", "c", key="k")
        assert sorted(len(driver.records.partition("in", number)) for number in range(2)) == [0, 3]


def test_any_partition_can_be_read_from_an_offset_on() -> None:
    with PipelineDriver(copying(), partitions=2) as driver:
        driver.records.send("in", WORDS, partition=1)
        assert driver.records.partition("in", 1, start=1) == WORDS[1:]
        assert driver.records.partition("out", 0) + driver.records.partition("out", 1) == driver.records.read("out")


def test_only_inputs_take_records() -> None:
    with PipelineDriver(copying()) as driver, pytest.raises(UsageError, match="reads no stream 'out'"):
        driver.records.send("out", WORDS)


def test_only_outputs_are_read_whole() -> None:
    with PipelineDriver(copying()) as driver, pytest.raises(UsageError, match="writes no stream 'in'"):
        driver.records.read("in")


def test_after_the_end_no_record_is_taken() -> None:
    with PipelineDriver(copying()) as driver:
        driver.end()
        with pytest.raises(UsageError, match="the input has ended"):
            driver.records.send("in", WORDS)
