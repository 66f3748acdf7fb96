"""Recordings of what is done to a pipeline on the driver, and of what comes of it."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from fluvial.dsl import Message, Pipeline, count, skip, tumbling
from fluvial.runtime.testing import PipelineDriver, Recorder
from fluvial.runtime.testing.recording import RecordedMessage, Step

SECOND = timedelta(seconds=1)


def busy(**options: Any) -> Pipeline:
    pipeline = Pipeline("busy", on_error=skip())
    clicks = pipeline.stream("clicks", value=int, key=str, timestamp=lambda at: at)
    clicks.window(tumbling(SECOND), count(), id="window", **options).send_to("panes")
    return pipeline


def values(entries: Sequence[RecordedMessage]) -> list[tuple[str, Any]]:
    return [(one.lane.stream, getattr(one.message.value, "value", one.message.value)) for one in entries]


def recorded(pipeline: Pipeline, *times: int | None) -> tuple[Step, ...]:
    with PipelineDriver(pipeline) as driver:
        recorder = Recorder(driver)
        for time in times:
            recorder.send("clicks", time, key="ann")
        recorder.end()
        return recorder.recording.steps


def test_a_step_has_what_was_sent_what_came_out_and_how_far_time_is() -> None:
    steps = recorded(busy(), 100, 1200)
    told = [(step.kind, step.watermark, values(step.sent), values(step.made)) for step in steps]
    assert told == [
        ("send", 100, [("clicks", 100)], []),
        ("send", 1200, [("clicks", 1200)], [("panes", 1)]),
        ("end", 1200, [], [("panes", 1)]),
    ]


def test_the_time_of_a_message_is_the_one_that_the_pipeline_goes_by() -> None:
    assert recorded(busy(), 700)[0].sent[0].message.timestamp == 700


def test_what_is_late_and_what_fails_is_noted() -> None:
    steps = recorded(busy(late_to="too-late"), 5000, 10, None)
    assert [(step.late, step.failed) for step in steps] == [((), ()), (("window",), ()), ((), ("stream-1",)), ((), ())]
    assert values(steps[1].made) == [("too-late", 10)]


def test_lanes_are_the_partitions_of_all_streams() -> None:
    pipeline = Pipeline("p")
    words = pipeline.stream("words", value=str)
    words.partition_by(lambda word: word, id="by", key_type=str).send_to("out")
    with PipelineDriver(pipeline, partitions={"words": 2, "out": 1}) as driver:
        recorder = Recorder(driver)
        recorder.send("words", "tea", partition=1)
        recorder.send("words", None, key="k", partition=1)
        lanes = [(lane.stream, lane.kind, lane.partition) for lane in recorder.recording.lanes]
        steps = recorder.recording.steps
    assert lanes == [
        ("words", "source", 0),
        ("words", "source", 1),
        ("p-by", "intermediate", 0),
        ("p-by", "intermediate", 1),
        ("out", "output", 0),
    ]
    assert steps[0].sent[0].lane.partition == 1
    assert values(steps[0].made) == [("p-by", "tea"), ("out", "tea")]
    assert values(steps[1].made) == [("p-by", None), ("out", None)]


def test_a_key_that_cannot_be_decoded_stays_bytes() -> None:
    pipeline = Pipeline("p", on_error=skip())
    pipeline.stream("words", value=int, key=str).send_to("out")
    with PipelineDriver(pipeline) as driver:
        recorder = Recorder(driver)
        recorder.send_records("words", [(b"\xff", b"tea", 7, ())])
        (entry,) = recorder.recording.steps[0].sent
    assert entry.message == Message(b"\xff", b"tea", 7)


def test_asynchronous_results_are_noted_when_they_come() -> None:
    async def sleepy(seconds: int) -> list[int]:
        await asyncio.sleep(seconds)
        return [seconds]

    pipeline = Pipeline("p")
    pipeline.stream("calls", value=int).async_flat_map(sleepy, id="call", order="none").send_to("out")
    with PipelineDriver(pipeline) as driver:
        recorder = Recorder(driver)
        for seconds in (3, 1):
            recorder.send("calls", seconds)
        recorder.advance(5 * SECOND)
        found = [(step.clock, values(step.made)) for step in recorder.recording.steps if step.made]
    assert found == [(1000, [("out", 1)]), (3000, [("out", 3)])]


def test_the_watermark_of_what_goes_by_the_clock_is_the_clock() -> None:
    with PipelineDriver(busy(time="processing"), start=500) as driver:
        recorder = Recorder(driver)
        recorder.send("clicks", 7, key="ann")
        recorder.advance(SECOND, every=SECOND / 2)
        found = recorder.recording
    assert found.clocked
    assert [(step.clock, step.watermark, len(step.made)) for step in found.steps] == [(500, 500, 0), (1000, 1000, 1)]


def test_commits_are_steps() -> None:
    with PipelineDriver(busy(), commits="timed") as driver:
        recorder = Recorder(driver)
        for time in (1, 1000):
            recorder.send("clicks", time, key="ann")
        recorder.commit()
        told = [(step.kind, len(step.made)) for step in recorder.recording.steps]
    assert told == [("send", 0), ("send", 0), ("commit", 1)]


def test_what_the_driver_does_by_itself_is_noted_with_the_next_step() -> None:
    with PipelineDriver(busy()) as driver:
        recorder = Recorder(driver)
        driver.send("clicks", 1, key="ann")
        recorder.send("clicks", 2, key="ann")
        (step,) = recorder.recording.steps
    assert values(step.sent) == [("clicks", 1), ("clicks", 2)]


def test_a_sink_is_followed_by_the_list_that_it_fills() -> None:
    class Shelf:
        def __init__(self) -> None:
            self.held: list[Message[Any]] = []

        def write(self, messages: Sequence[Message[Any]]) -> None:
            self.held += messages

        def open(self) -> None:
            pass

        flush = close = open

    shelf, pipeline = Shelf(), Pipeline("p")
    pipeline.stream("words", value=str).sink(shelf, id="shelf")
    with PipelineDriver(pipeline) as driver:
        recorder = Recorder(driver, sinks={"shelf": shelf.held})
        recorder.send("words", "tea")
        assert values(recorder.recording.steps[0].made) == [("shelf", "tea")]
        assert recorder.recording.lanes[-1].kind == "sink"
