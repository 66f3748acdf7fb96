"""What the tasks of a driver hold: watermarks, and rows of tables."""

from datetime import timedelta

import pytest

from fluvial.dsl import Pipeline, UsageError, count, tumbling
from fluvial.runtime.testing import PipelineDriver


def counting() -> Pipeline:
    pipeline = Pipeline("busy")
    words = pipeline.stream("in", value=str, key=str)
    words.window(tumbling(timedelta(seconds=1)), count(), id="window").send_to("out")
    return pipeline


def test_the_watermark_is_the_least_of_the_tasks_of_an_operator() -> None:
    with PipelineDriver(counting(), partitions=2) as driver:
        driver.send("in", "a", timestamp=7, partition=0, key="k")
        assert driver.state.watermark("window") is None
        driver.send("in", "b", timestamp=5, partition=1, key="k")
        assert driver.state.watermark("window") == 5
        driver.end()
        assert driver.state.watermark("window") == 5


def test_the_watermark_of_an_operator_that_is_not_there_is_refused() -> None:
    with PipelineDriver(counting()) as driver, pytest.raises(UsageError, match="no operator 'windows'"):
        driver.state.watermark("windows")


def test_a_table_that_is_not_there_is_refused() -> None:
    with PipelineDriver(counting()) as driver, pytest.raises(UsageError, match="no table 'window'"):
        driver.state.table("window")


def test_a_crashed_driver_has_no_state() -> None:
    with PipelineDriver(counting()) as driver:
        driver.crash()
        with pytest.raises(UsageError, match="the pipeline is crashed"):
            driver.state.watermark("window")


def test_the_state_is_of_the_run_that_goes_on() -> None:
    with PipelineDriver(counting()) as driver:
        driver.send("in", "a", timestamp=7, key="k")
        driver.restart()
        driver.send("in", "a", timestamp=9, key="k")
        assert driver.state.watermark("window") == 9
