"""A batch job warns of its messages as a run does; by itself, without Spark."""

from datetime import timedelta

import pytest

from fluvial.dsl import Pipeline, count, tumbling
from fluvial.planner import Plan, plan
from fluvial.runtime.spark.counts import Counts
from fluvial.runtime.spark.frames.job_warnings import job_warnings


def planned() -> Plan:
    pipeline = Pipeline("p")
    rows = pipeline.table("rows", key=str, value=int)
    clicks = pipeline.stream("clicks", key=str, value=int, timestamp=abs, out_of_order=timedelta(seconds=1))
    clicks.join(rows, max, id="joined").window(tumbling(timedelta(minutes=1)), count(), id="w").send_to("out")
    return plan(pipeline, partitions={"clicks": 2, "rows": 2})


def test_a_batch_job_warns_of_its_messages_as_a_run_does(caplog: pytest.LogCaptureFixture) -> None:
    seconds = {"clicks/0": 1_700_000_000 - 1000, "clicks/1": 1_690_000_000, "rows/0": 5}
    counts = Counts({"keyless": {"rows": 3}, "given": {"w": 9}}, seconds)
    assert [*job_warnings(planned(), counts, ["clicks", "rows"])] == ["times of clicks"]
    assert "the times of stream 'clicks' lie before 1980: the latest is 1700000000, which is 1970-01-20" in caplog.text
    assert "table 'rows' was given messages without a key, 3 by now" in caplog.text


def test_a_batch_job_of_which_nothing_is_odd_warns_of_nothing(caplog: pytest.LogCaptureFixture) -> None:
    counts = Counts({"keyless": {"rows": 0}, "given": {"w": 9}}, {"clicks/0": 1_700_000_000_000})
    assert job_warnings(planned(), counts, ["clicks", "rows"]) == {}
    assert not caplog.messages
