"""Conformance cases about one part: run loop, landing, checkpoints, watermarks, ends of input, plans."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from engines.targets import contents, write
from faults.commit_deaths import Killed, dying_after
from fluvial.dsl import Context, KeyedProcessor, Message, MessageError, Pipeline, Timer, count, tumbling
from fluvial.planner import Settings, plan
from fluvial.planner.planner import plan_on
from fluvial.planner.task_assignment import StageTasks
from fluvial.runtime import run
from fluvial.runtime.kernel.time.border_watermarks import TRAILER_HEADER, ControlMessage, control_record, pack_trailer
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.kernel.time.input_progress import InputProgress
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.kernel.time.stage_input import StageInput
from fluvial.runtime.kernel.time.watermark_node import WatermarkNode
from fluvial.runtime.kernel.time.watermarks import WatermarkGraph
from fluvial.runtime.local.checkpoints.checkpoint import decode
from fluvial.runtime.local.offset_tracker import OffsetTracker
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.testing import PipelineDriver


def asynchronous(fn: Callable[[int], Any], **options: Any) -> Pipeline:
    pipeline = Pipeline("async")
    pipeline.stream("in", value=int).async_flat_map(fn, id="call", **options).send_to("out")
    return pipeline


def values(driver: PipelineDriver, stream: str = "out") -> list[Any]:
    return [message.value for message in driver.read(stream)]


def checkpoint(driver: PipelineDriver, task: str = "in/0") -> dict[str, int]:
    kept = driver._admin.checkpoints(driver.plan.name).get(task)
    return decode(kept, task).offsets if kept else {}


async def at_once(number: int) -> list[int]:
    return [number]


async def later(number: int) -> list[int]:
    await asyncio.sleep(number)
    return [number]


async def refuse(number: int) -> list[int]:
    raise ValueError(f"no {number}")


# D. Run loop


def test_r02_one_at_a_time_calls_happen_in_order() -> None:
    calls: list[int] = []

    async def note(number: int) -> list[int]:
        calls.append(number)
        return [number]

    with PipelineDriver(asynchronous(note, max_in_flight=1)) as driver:
        for number in (0, 1, 2):
            driver.send("in", number)
    assert calls == [0, 1, 2]


def test_r09_the_end_waits_for_what_is_in_flight() -> None:
    with PipelineDriver(asynchronous(later, max_in_flight=2, order="none")) as driver:
        driver.send("in", 9)
        driver.send("in", 0)
        assert values(driver) == [0]
        driver.end()
        assert values(driver) == [0, 9]
        assert driver.now == 9000


def test_r10_the_end_commits() -> None:
    with PipelineDriver(asynchronous(at_once), commits="timed") as driver:
        driver.send("in", 1)
        assert checkpoint(driver) == {}
        driver.end()
        assert checkpoint(driver) == {"in": 1}


def test_r17_after_a_failure_nothing_is_committed_past_the_message() -> None:
    with PipelineDriver(asynchronous(refuse)) as driver:
        with pytest.raises(MessageError, match="no 1"):
            driver.send("in", 1)
        assert checkpoint(driver).get("in", 0) == 0


def test_r24b_a_call_that_takes_too_long_fails_its_message() -> None:
    with PipelineDriver(asynchronous(later, timeout=timedelta(milliseconds=100))) as driver:
        driver.send("in", 2)
        with pytest.raises(
            MessageError, match=r"call failed on the message at in, partition 0, offset 0.*TimeoutError"
        ):
            driver.advance(timedelta(milliseconds=100))


def test_r24c_an_error_of_the_function_stops_the_run() -> None:
    with PipelineDriver(asynchronous(refuse)) as driver, pytest.raises(MessageError, match="ValueError: no 3"):
        driver.send("in", 3)


def test_r24d_an_error_behind_the_call_stops_the_run() -> None:
    pipeline = Pipeline("behind")
    called = pipeline.stream("in", value=int).async_flat_map(at_once, id="call")
    called.map(lambda number: 1 // number).send_to("out")
    with (
        PipelineDriver(pipeline) as driver,
        pytest.raises(MessageError, match=r"map\(lambda, test_engine_cases.py:116\) failed.*ZeroDivisionError"),
    ):
        driver.send("in", 0)


def test_r25_a_message_that_cannot_be_decoded_stops_the_run() -> None:
    with PipelineDriver(asynchronous(at_once)) as driver, pytest.raises(MessageError, match="DecodeError"):
        driver.records.send("in", [(None, b"bad", 0, ())])


# E and F. Landing and checkpoints


def test_c04_what_lands_in_order_moves_the_checkpoint() -> None:
    landing = OffsetTracker(0)
    marks = landing.begin(range(3), 0, 3)
    found = [landing.position()]
    for index in range(3):
        marks[index] = 1
        found.append(landing.position())
    assert found == [0, 1, 2, 3]


def test_c05_what_lands_out_of_order_moves_it_once_the_gap_is_closed() -> None:
    landing = OffsetTracker(0)
    marks = landing.begin(range(3), 0, 3)
    found = []
    for index in (2, 1, 0):
        marks[index] = 1
        found.append(landing.position())
    assert found == [0, 0, 3]


def test_o01_a_run_goes_on_behind_its_checkpoint() -> None:
    with PipelineDriver(asynchronous(at_once)) as driver:
        driver.send("in", 1)
        driver.restart()
        assert checkpoint(driver) == {"in": 1}
        driver.send("in", 2)
        assert values(driver) == [1, 2]
        assert checkpoint(driver) == {"in": 2}


@pytest.mark.parametrize(("default", "read"), [("earliest", [b"1", b"2"]), ("latest", [b"2"])])
def test_o03_without_a_checkpoint_the_default_counts(default: Any, read: list[bytes]) -> None:
    settings, system = Settings(offset_default=default), MemorySystem()
    for value in (b"1", b"2"):
        write(system, {"in": [[(None, value, 0, ())]]})
        run(asynchronous(at_once), system=system, settings=settings, until="end")
    assert [record[1] for record in contents(system, "out")] == read


def counted() -> Pipeline:
    pipeline = Pipeline("counted")
    keyed = pipeline.stream("in", value=str, key=str)
    keyed.window(tumbling(timedelta(milliseconds=1)), count(), id="window").send_to("out")
    return pipeline


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_o12_state_offsets_and_outputs_become_durable_at_one_stroke(steps: int) -> None:
    # Of preparing the outputs, writing state with the offsets, and publishing, only so many happen.
    with PipelineDriver(counted(), commits="timed") as driver:
        for time in (0, 1):
            driver.send("in", "x", key="x", timestamp=time)
        with dying_after(steps), pytest.raises(Killed):
            driver.commit()
        driver.restart()
        driver.end()
        assert [(message.timestamp, message.value.value) for message in driver.read("out")] == [(0, 1), (1, 1)]


# G and H. Watermarks and ends of input: int is an intermediate stream with two producers


def inputs_of_two_producers() -> tuple[InputProgress, WatermarkGraph]:
    timeline = WatermarkGraph([WatermarkNode("stream", (), "int")], lambda _: None)
    entries = {"int": StageInput("int", "trailer", None, "by", ())}
    writers = {"int": StageTasks(2)}
    return InputProgress(entries, timeline, Position(), writers, lambda control: control.run == "run"), timeline


def test_m01_a_stream_is_as_far_as_its_slowest_producer() -> None:
    inputs, _ = inputs_of_two_producers()
    told = [(0, 6), (1, 3), (0, 10), (1, 8)]
    assert [inputs.observe("int", pack_trailer(*one)) for one in told] == [START, 3, 3, 8]


def idle(producer: int) -> bytes:
    ((_, stamp),) = control_record(ControlMessage("run", 0, producer, 2, START, False, True), 0)[3]
    return stamp


def test_m04_a_producer_to_which_nothing_comes_is_not_waited_for() -> None:
    inputs, _ = inputs_of_two_producers()
    told = [pack_trailer(0, 1), idle(1), pack_trailer(0, 5), pack_trailer(1, 3), pack_trailer(0, 9)]
    assert [inputs.observe("int", stamp) for stamp in told] == [START, 1, 5, 5, 5]


def test_m04_time_passes_a_partition_that_is_empty_from_the_start() -> None:
    pipeline = Pipeline("startup")
    source = pipeline.stream("in", value=int, idle_after=timedelta(minutes=10))
    keyed = source.partition_by(lambda _: "k", id="by", key_type=str)
    keyed.window(tumbling(timedelta(milliseconds=1)), count(), id="window").send_to("out")
    with PipelineDriver(pipeline, partitions=2) as driver:
        driver.send("in", 0, timestamp=1, partition=0)
        driver.advance(timedelta(minutes=9))
        driver.send("in", 0, timestamp=2, partition=0)
        assert driver.read("out") == []
        driver.advance(timedelta(minutes=1))
        driver.send("in", 0, timestamp=5, partition=0)
        assert [message.timestamp for message in driver.read("out")] == [1, 2]


def test_m07_each_task_behind_a_border_follows_the_slowest_source() -> None:
    pipeline = Pipeline("far")
    keyed = pipeline.stream("in", value=int).partition_by(lambda _: "k", id="by", key_type=str)
    keyed.window(tumbling(timedelta(milliseconds=1)), count(), id="window").send_to("out")
    with PipelineDriver(pipeline, partitions=2) as driver:
        for partition, time in ((0, 1), (1, 2), (0, 4), (1, 3)):
            driver.send("in", 0, timestamp=time, partition=partition)
        assert sorted(message.timestamp for message in driver.read("out")) == [1, 2]


class Ringing(KeyedProcessor[str, int, int]):
    """Emits the time of each message once more, by a timer a ms later."""

    def on_message(self, message: Message[int], context: Context[str]) -> None:
        context.timers.set(str(message.value), message.timestamp + 1)

    def on_timer(self, timer: Timer, context: Context[str]) -> list[int]:
        del context
        return [timer.time]


def test_m09_what_time_lets_out_reaches_what_follows_before_time_does() -> None:
    pipeline = Pipeline("ringing")
    ringing = pipeline.stream("in", key=str, value=int).process(Ringing(), id="ringing")
    ringing.window(tumbling(timedelta(milliseconds=10)), count(), id="window").send_to("out")
    with PipelineDriver(pipeline) as driver:
        for time in (1, 8, 50):
            driver.send("in", time, key="k", timestamp=time)
        (pane,) = driver.read("out")
    # The timers of 2 and 9 ring when time goes from 8 to 50, which is past the window's end.
    assert (pane.value.window.end, pane.value.value) == (10, 2)


def ended(producer: int, run: str = "run") -> bytes:
    ((name, stamp),) = control_record(ControlMessage(run, 0, producer, 2, 0, True), 0)[3]
    assert name == TRAILER_HEADER
    return stamp


def test_e01_a_stream_ends_when_all_its_producers_have() -> None:
    inputs, _ = inputs_of_two_producers()
    found = []
    for producer in (0, 0, 1):
        inputs.observe("int", ended(producer))
        found.append(inputs.ends.ended("int"))
    assert found == [False, False, True]


def test_e05_a_broadcast_of_a_bounded_input_ends() -> None:
    system, pipeline = MemorySystem(), Pipeline("broadcast")
    everywhere = pipeline.stream("in", value=int).broadcast(id="all")
    pipeline.stream("other", value=int).merge(everywhere).send_to("out")
    write(system, {"in": [[(None, b"1", 0, ())], []], "other": [[], []]})
    report = run(pipeline, system=system, until="end")
    assert report.written == {"broadcast-all": 1, "out": 2}


@pytest.mark.slow
def test_p16_every_task_reads_all_that_is_broadcast() -> None:
    pipeline = Pipeline("broadcast")
    everywhere = pipeline.stream("input1", value=int).broadcast(id="all")
    pipeline.stream("input2", value=int).merge(everywhere).send_to("out")
    with PipelineDriver(pipeline, partitions={"input1": 64, "input2": 3}) as driver:
        assert driver.plan.stage("input2").tasks == 3
        for partition in range(64):
            driver.send("input1", partition, partition=partition)
        driver.end()
        assert sorted(values(driver)) == sorted([*range(64)] * 3)


def test_r14_the_end_of_another_run_ends_nothing() -> None:
    inputs, _ = inputs_of_two_producers()
    for producer in (0, 1):
        inputs.observe("int", ended(producer, "another"))
    assert not inputs.ends.ended("int")


# I. Planner


COUNTS = {"input1": 64, "input2": 16, "input3": 32, "input4": 512, "output1": 8, "output2": 16}


def through_a_border(source: str = "input1") -> Pipeline:
    pipeline = Pipeline("p")
    keyed = pipeline.stream(source, value=str).partition_by(lambda word: word, id="by", key_type=str)
    keyed.map(str.upper).send_to("output1")
    return pipeline


@pytest.mark.parametrize(
    ("source", "setting", "expected"),
    [("input1", None, 64), ("input1", 10, 10), ("input4", None, 512)],
    ids=["P01", "P02", "P11"],
)
def test_an_intermediate_stream_has_the_partitions(source: str, setting: int | None, expected: int) -> None:
    made = plan_on(through_a_border(source), COUNTS, settings=Settings(intermediate_partitions=setting))
    assert made.stream("p-by").partitions == expected


def doubled(word: str) -> str:
    return 2 * word


def both(left: str, right: str) -> str:
    return left + right


def test_p03_streams_between_stages_have_as_many_partitions_as_what_they_are_joined_with() -> None:
    pipeline = Pipeline("p")
    first = pipeline.stream("input1", value=str, key=str).map(doubled)
    second = pipeline.stream("input2", value=str).partition_by(str, id="p1", key_type=str).filter(bool)
    third = pipeline.stream("input3", value=str).filter(bool).partition_by(str, id="p2", key_type=str).map(doubled)
    second.join(first, both, id="j1", within=timedelta(hours=2)).send_to("output1", value=str)
    third.join(first, both, id="j2", within=timedelta(hours=1)).send_to("output2", value=str)
    made = plan_on(pipeline, COUNTS)
    assert [made.stream(name).partitions for name in ("p-p1", "p-p2")] == [64, 64]
    kinds = [stream.kind for stream in made.streams]
    assert [kinds.count(kind) for kind in ("source", "output", "intermediate")] == [3, 2, 2]


@pytest.mark.parametrize("joined", [False, True])
def test_p05_inputs_that_meet_by_key_must_agree(joined: bool) -> None:
    pipeline = Pipeline("p")
    one, other = (pipeline.stream(name, value=str, key=str) for name in ("input1", "input3"))
    if joined:
        one.join(other, both, id="j", within=timedelta(hours=1)).send_to("output1")
    else:
        one.merge(other).window(tumbling(timedelta(seconds=1)), count(), id="w").send_to("output1")
    with pytest.raises(Exception, match="different partition counts: input1 has 64, input3 has 32"):
        plan_on(pipeline, COUNTS)


def test_p18_a_merge_is_one_operator_with_one_reader() -> None:
    pipeline = Pipeline("p")
    source = pipeline.stream("input1", value=str)
    source.filter(bool).merge(source.map(str.upper)).map(str.lower).send_to("output1")
    graph = plan_on(pipeline, COUNTS).graph
    merges = [id for id in graph if graph.nodes[id]["operator"].kind == "merge"]
    assert [list(graph.successors(id)) for id in merges] == [["map-5"]]


def test_p19_what_follows_a_partition_by_is_another_stage() -> None:
    made = plan_on(through_a_border(), COUNTS)
    assert [stage.id for stage in made.stages] == ["input1", "p-by"]
    assert made.stage("input1").operators[-1] == "by"


def test_m11_every_task_that_writes_an_intermediate_stream_is_a_producer() -> None:
    made = plan(through_a_border(), partitions={"input1": 3})
    assert (made.stage("input1").tasks, made.stream("p-by").written_by) == (3, ("by",))
