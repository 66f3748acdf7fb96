"""What a run is given of DataFrames: wrong arguments, and what fits a plan."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from explained import assert_explains, error_of
from fluvial.dsl import (
    Pipeline,
    UnsupportedError,
    UsageError,
    after_count,
    count,
    dead_letter,
    tumbling,
    unbounded,
)
from fluvial.planner import plan
from fluvial.runtime import Backfill, DataFrameInput, DataFrameOutput
from fluvial.runtime.data_frames.bindings import DataFrames, check_streams, data_frames


def a_frame(*, streaming: bool = False, module: str = "pyspark.sql.classic.dataframe") -> Any:
    """Something that says of itself what a DataFrame does, as far as it is asked here."""
    client = SimpleNamespace(get_retry_policies=list, set_retry_policies=lambda _: None, host="there")
    session = SimpleNamespace(client=client)
    return type("DataFrame", (), {"__module__": module, "isStreaming": streaming, "sparkSession": session})()


DAY = (datetime(2026, 3, 1), datetime(2026, 3, 2))
HOUR = timedelta(hours=1)


def write(frame: Any, batch: int) -> None:
    """A function as users write them."""


def overwrite(frame: Any, backfill: Backfill) -> None:
    """A function as users write them."""


ODD: Any = 3
"""What is none of what is expected anywhere."""
CALLED: Any = DataFrameInput


def test_a_dataframe_is_not_asked_for_its_text() -> None:
    # Which is a query in a session that shows rows, and a question to the server on Spark Connect.
    def text(_: object) -> str:
        pytest.fail("it is asked")

    module = "pyspark.sql.classic.dataframe"
    frame = type("DataFrame", (), {"__module__": module, "isStreaming": False, "__repr__": text})()
    assert data_frames({"clicks": frame}, None, None).inputs["clicks"].frame is frame


@pytest.mark.parametrize(
    ("call", "wrong"),
    [
        (lambda: DataFrameInput(ODD), "DataFrameInput: int of builtins"),
        (lambda: DataFrameInput(a_frame(), key=ODD), "DataFrameInput: key=3"),
        (lambda: DataFrameInput(a_frame(), timestamp=ODD), "DataFrameInput: timestamp=3"),
        (lambda: DataFrameInput(a_frame(), columns={"url": ODD}), "DataFrameInput: columns={'url': 3}"),
        (lambda: CALLED(a_frame(), column="url"), "column"),
        (lambda: DataFrameOutput(ODD), "DataFrameOutput: write=3"),
        (lambda: DataFrameOutput(write, overwrite=ODD), "DataFrameOutput: overwrite=3"),
        (lambda: DataFrameOutput(write, key=""), "DataFrameOutput: key=''"),
        (lambda: Backfill(DAY[1], DAY[0], lookback=HOUR), "Backfill: start="),
        (lambda: Backfill(ODD, ODD, lookback=HOUR), "Backfill: start=3"),
        (lambda: Backfill(*DAY, lookback=ODD), "Backfill: lookback=3"),
        (lambda: Backfill(*DAY, lookback=-HOUR), "Backfill: lookback="),
        (lambda: Backfill(*DAY, lookback=HOUR, keys="ann"), "Backfill: keys='ann'"),
        (lambda: Backfill(*DAY, lookback=HOUR, keys=[]), "Backfill: keys=[]"),
        (lambda: Backfill(*DAY, lookback=HOUR, keys=[1.5]), "Backfill: keys=[1.5]"),
        (lambda: Backfill(*DAY, lookback=HOUR, keys=[2**70]), "Backfill: keys=["),
        (lambda: data_frames([1], None, None), "inputs=[1]"),
        (lambda: data_frames(None, {1: write}, None), "outputs={1:"),
        (lambda: data_frames(None, None, "today"), "backfill='today'"),
    ],
)
def test_a_wrong_argument_is_refused(call: Callable[[], Any], wrong: str) -> None:
    assert_explains(error_of(call, UsageError), wrong, None, "")


def test_a_day_without_a_zone_is_one_in_utc() -> None:
    begun = Backfill(*DAY, lookback=HOUR)
    assert begun.range == (1772323200000, 1772409600000)
    assert begun.span == (1772323200000 - 3_600_000, 1772409600000 + 3_600_000)
    zone = timezone(HOUR)
    there = Backfill(DAY[0].replace(tzinfo=zone), DAY[1].replace(tzinfo=UTC), lookback=HOUR)
    assert there.range == (1772323200000 - 3_600_000, 1772409600000)


def test_streaming_and_bounded_inputs_do_not_mix() -> None:
    def mixed() -> DataFrames:
        return data_frames({"a": a_frame(), "b": a_frame(streaming=True)}, None, None)

    assert_explains(
        error_of(mixed, UsageError), "inputs: 'b' is a streaming DataFrame", None, "of one kind", "spark.read"
    )


def test_a_backfill_needs_inputs_that_end_and_outputs_that_can_be_overwritten() -> None:
    backfill = Backfill(*DAY, lookback=HOUR)
    streaming = error_of(lambda: data_frames({"a": a_frame(streaming=True)}, None, backfill), UsageError)
    assert_explains(streaming, "backfill= without DataFrames that have an end", None, "inputs", "spark.read")
    lacking = error_of(lambda: data_frames({"a": a_frame()}, {"b": write}, backfill), UsageError)
    assert_explains(lacking, "outputs: that of 'b' has no function overwrite", None, "replaces the range", "overwrite=")
    idle = error_of(
        lambda: data_frames({"a": a_frame()}, {"b": DataFrameOutput(overwrite=overwrite)}, None), UsageError
    )
    assert_explains(idle, "outputs: that of 'b' has no function write", None, "no backfill=", "write=")


class _Collecting:
    def open(self) -> None:
        """Nothing to open."""

    def write(self, messages: Any) -> None:
        """Take them."""

    def flush(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing to close."""


def a_pipeline() -> Pipeline:
    pipeline = Pipeline("busy", on_error=dead_letter())
    keyed = pipeline.stream("clicks", key=str, value=str)
    keyed.window(tumbling(HOUR), count(), id="counts", late_to="late").send_to("counts")
    return pipeline


def test_names_of_no_stream_are_refused_with_those_that_there_are() -> None:
    made = plan(a_pipeline())
    read = error_of(lambda: check_streams(made, data_frames({"click": a_frame()}, None, None)), UsageError)
    assert_explains(read, "inputs: 'click', where pipeline 'busy' reads clicks", None, "the name of such a stream")
    written = error_of(lambda: check_streams(made, data_frames(None, {"clicks": write}, None)), UsageError)
    assert_explains(written, "outputs: 'clicks', where pipeline 'busy' writes", None, "the name of such a stream")


def test_a_batch_job_needs_a_frame_for_each_stream_but_the_late_one() -> None:
    made, clicks = plan(a_pipeline()), {"clicks": a_frame()}
    counts = data_frames(clicks, {"counts": write}, None)
    raised = error_of(lambda: check_streams(made, counts), UsageError)
    assert_explains(
        raised, "outputs: 'busy-dead-letters' is missing", None, "a DataFrame for each stream", "readStream"
    )
    check_streams(made, data_frames(clicks, {"counts": write, "busy-dead-letters": write}, None))
    check_streams(made, counts, all_outputs=False)


def test_a_sink_cannot_be_part_of_a_backfill() -> None:
    pipeline = Pipeline("busy")
    pipeline.stream("clicks", value=str).sink(_Collecting(), id="out")
    frames = data_frames({"clicks": a_frame()}, None, Backfill(*DAY, lookback=HOUR))
    raised = error_of(lambda: check_streams(plan(pipeline), frames), UsageError)
    assert_explains(raised, "backfill= with the sink 'out'", None, "overwritten", "send_to")


def test_what_a_system_has_of_a_plan_is_the_rest() -> None:
    made, frames = plan(a_pipeline()), data_frames({"clicks": a_frame(streaming=True)}, {"counts": write}, None)
    assert [stream.name for stream in frames.system_part(made).streams] == ["late", "busy-dead-letters"]
    assert not frames.alone(made)
    assert not DataFrames()


def test_a_run_on_a_streaming_frame_of_spark_connect_is_refused_and_one_that_ends_is_not() -> None:
    made, module = plan(a_pipeline()), "pyspark.sql.connect.dataframe"
    outputs = {"counts": write, "busy-dead-letters": write}
    check_streams(made, data_frames({"clicks": a_frame(module=module)}, outputs, None))
    streaming = data_frames({"clicks": a_frame(streaming=True, module=module)}, outputs, None)
    raised = error_of(lambda: check_streams(made, streaming), UnsupportedError)
    assert_explains(raised, "'clicks' is a streaming DataFrame of Spark Connect", None, "this process", "spark.read")
    check_streams(made, streaming, all_outputs=False)


def test_a_lookback_is_as_long_as_what_operators_reach_over() -> None:
    backfill = Backfill(*DAY, lookback=HOUR / 2)
    outputs = dict.fromkeys(("counts", "busy-dead-letters"), DataFrameOutput(overwrite=overwrite))
    frames = data_frames({"clicks": a_frame()}, outputs, backfill)
    raised = error_of(lambda: check_streams(plan(a_pipeline()), frames), UsageError)
    assert_explains(raised, "where window counts reaches over 3600000 ms", None, "a lookback as long", "longer one")


def test_operators_that_may_reach_further_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = Pipeline("busy")
    keyed = pipeline.stream("clicks", key=str, value=str)
    keyed.window(unbounded(), count(), id="all", trigger=after_count(1)).send_to("counts")
    outputs = {"counts": DataFrameOutput(overwrite=overwrite)}
    check_streams(plan(pipeline), data_frames({"clicks": a_frame()}, outputs, Backfill(*DAY, lookback=HOUR)))
    assert "backfill: window all may depend on messages from before the lookback" in caplog.text
