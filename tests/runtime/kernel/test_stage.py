"""A stage at work: what it is fed, what it gives, what of it has landed, and what a commit must keep."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from engines.stages import feed, program_of, task_of
from fluvial.dsl import KeyedStream, Pane, Pipeline, StreamTask, count, dead_letter, skip, tumbling
from fluvial.dsl.errors import MessageError
from fluvial.runtime.kernel import firing_pauses
from fluvial.runtime.kernel.output_buffer import DEAD_LETTERS
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.time.border_watermarks import ControlMessage, control_record
from fluvial.runtime.kernel.time.bounds import END
from fluvial.runtime.kernel.time.position import Position
from fluvial.runtime.state import MemoryStore

TEN = tumbling(timedelta(milliseconds=10))


def keyed(pipeline: Pipeline) -> KeyedStream[str, int]:
    return pipeline.stream("in", value=int, key=str)


class Closing(StreamTask[Any, Any, Any]):
    def process(self, envelope: Any, collector: Any, coordinator: Any) -> None:
        pass

    def close(self) -> None:
        raise ValueError("\x1b[2Jgone")


def test_no_terminal_obeys_the_error_of_a_task_that_cannot_close(caplog: pytest.LogCaptureFixture) -> None:
    pipeline = Pipeline("p")
    pipeline.task(Closing, pipeline.stream("in", value=int), id="closing").send_to("out")
    task_of(pipeline).close()
    assert "task closing: close failed\n  at " in caplog.text
    assert caplog.text.rstrip().endswith("ValueError: \\x1b[2Jgone")


def counting(pipeline: Pipeline | None = None) -> Pipeline:
    pipeline = pipeline or Pipeline("p")
    keyed(pipeline).window(TEN, count(), id="window").map(lambda pane: pane.value).send_to("out", value=int)
    return pipeline


def at(*times: int) -> list[Any]:
    return [(b"a", b"1", time, ()) for time in times]


async def as_long_as_it_says(value: int) -> list[int]:
    await asyncio.sleep(0)
    for _ in range(value):
        await asyncio.sleep(0)
    return [10 // value]


def calling(**options: Any) -> Pipeline:
    pipeline = Pipeline("p", on_error=options.pop("on_error", skip()))
    source = pipeline.stream("in", value=int)
    source.async_flat_map(as_long_as_it_says, id="call", order="none", **options).send_to("out", value=int)
    return pipeline


async def until_idle(task: StageTask) -> None:
    while task.progress.busy:
        await asyncio.sleep(0)


def test_a_part_of_a_batch_is_fed_as_such() -> None:
    pipeline = Pipeline("p", on_error=dead_letter())
    pipeline.stream("in", value=int).map(lambda value: 1 // value).send_to("out", value=int)
    task = task_of(pipeline)
    records = [(None, b"%d" % value, 0, ()) for value in (1, 1, 0, 1)]
    task.feed("in", 0, [5, 6, 8, 9], records, 1, 3)
    made = dict(task.drain_outputs())
    assert made["send_to-3"] == [records[1]]
    ((_, _, _, headers),) = made[DEAD_LETTERS]
    assert dict(headers)["fluvial-offset"] == b"8"


def test_a_stage_whose_firing_has_paused_takes_no_message_until_it_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(firing_pauses, "PIECE", 1)
    full = True
    task = task_of(counting(), full=lambda: full)
    keys = [(name, b"1", 0, ()) for name in (b"a", b"b", b"c")]
    records = [*keys, (b"a", b"1", 10, ()), (b"d", b"1", 11, ())]
    assert task.feed("in", 0, range(5), records) == 4
    assert (task.paused, task.go_on(), task.counts.fed) == (True, False, {"in": 4})
    assert [record[0] for record in dict(task.drain_outputs())["send_to-4"]] == [b"a"]
    assert task.position().cursors == {"window": (10, b"a")}
    full = False
    assert (task.go_on(), task.paused, task.position().cursors) == (True, False, {})
    assert [record[0] for record in dict(task.drain_outputs())["send_to-4"]] == [b"b", b"c"]
    assert task.feed("in", 0, range(5), records, 4) == 5


def test_what_was_taken_is_not_given_again() -> None:
    task = task_of(counting())
    feed(task, "in", *at(0, 10))
    assert dict(task.drain_outputs()) == {}


def test_a_task_goes_on_from_its_changes_and_position() -> None:
    program, backend = program_of(counting()), MemoryStore()
    before = StageTask(program, backend, empty=True)
    assert feed(before, "in", *at(0, 12, 15)) == {"send_to-4": [(b"a", b"1", 9, ())]}
    backend.write(before.state.changes())
    before.state.mark_committed(10)
    after = StageTask(program, backend, position=before.position())
    for task in (before, after):
        # A window before the restored time is over, and one behind it is whole.
        assert feed(task, "in", *at(9, 19, 20)) == {"send_to-4": [(b"a", b"3", 19, ())]}
        assert task.counts.late == {"window": 1}


def test_the_end_of_an_input_fires_what_is_left_and_counts_for_nothing_later() -> None:
    task = task_of(counting())
    feed(task, "in", *at(3))
    task.inputs.ends.end("in")
    assert dict(task.drain_outputs()) == {"send_to-4": [(b"a", b"1", 9, ())]}
    assert (task.progress.watermark_of("map-3"), task.progress.reported_watermark_of("map-3")) == (END, 3)
    assert task.position() == Position(
        {"in": 3}, lateness={"window": 0}, out_of_order={"in": 0}, reached={"window": 3}, fired_at_end={"window": 10}
    )


def test_windows_wait_for_an_input_that_has_ended_until_all_have() -> None:
    pipeline = Pipeline("p")
    other = pipeline.stream("other", value=int, key=str)
    windows = keyed(pipeline).merge(other).window(TEN, count(), id="window", lateness=timedelta(seconds=1))
    windows.map(lambda pane: pane.value).send_to("out", value=int)
    program, backend = program_of(pipeline), MemoryStore()
    before = StageTask(program, backend, empty=True)
    feed(before, "other", *at(1))
    feed(before, "in", *at(2, 50))
    before.inputs.ends.end("other")
    assert dict(before.drain_outputs()) == {}
    backend.write(before.state.changes())
    after = StageTask(program, backend, position=before.position())
    assert after.progress.watermark_of("window") == 1
    after.inputs.ends.end("other")
    after.inputs.ends.end("in")
    assert dict(after.drain_outputs()) == {"send_to-6": [(b"a", b"2", 9, ()), (b"a", b"1", 59, ())]}


def test_where_all_inputs_have_ended_a_later_run_goes_on_from_what_they_told() -> None:
    pipeline = Pipeline("p")
    other = pipeline.stream("other", value=int, key=str)
    keyed(pipeline).merge(other).window(TEN, count(), id="window").map(lambda pane: pane.value).send_to("out")
    task = task_of(pipeline)
    feed(task, "other", *at(1))
    feed(task, "in", *at(50))
    for name in ("other", "in"):
        task.inputs.ends.end(name)
    assert task.position() == Position(
        {"in": 50, "other": 1},
        lateness={"window": 0},
        out_of_order={"in": 0, "other": 0},
        reached={"window": 1},
        fired_at_end={"window": 60},
    )


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_failure_stops_the_task_where_the_policy_says_so(asynchronous: bool) -> None:
    async def fail(value: int) -> list[int]:
        return [1 // value]

    pipeline = Pipeline("p")
    source = pipeline.stream("in", value=int)
    source = source.async_flat_map(fail, id="call") if asynchronous else source.map(lambda value: 1 // value)
    source.send_to("out")

    async def work() -> None:
        task = task_of(pipeline)
        feed(task, "in", (None, b"0", 0, ()))
        await until_idle(task)
        task.check()

    with pytest.raises(MessageError, match="ZeroDivisionError"):
        asyncio.run(work())


def test_messages_land_as_they_end_whatever_becomes_of_them() -> None:
    marks = bytearray(4)

    async def work() -> dict[str, list[Any]]:
        task = task_of(calling())
        values = (b"3", b"0", b"1", b"garbage")
        task.feed("in", 0, [5, 6, 8, 9], [(None, value, 0, ()) for value in values], marks=marks)
        assert [*marks] == [0, 0, 0, 1]
        await until_idle(task)
        assert task.failures.counts == {"call": 1, "stream-1": 1}
        return dict(task.drain_outputs())

    made = asyncio.run(work())
    assert [*marks] == [1, 1, 1, 1]
    assert made == {"send_to-3": [(None, b"10", 0, ()), (None, b"3", 0, ())]}


def test_a_control_message_lands_at_once() -> None:
    async def call(value: int) -> list[int]:
        return [value]

    pipeline = Pipeline("p")
    crossed = pipeline.stream("in", value=int).partition_by(str, id="by", key_type=str)
    crossed.async_flat_map(call, id="call").send_to("out")
    task, marks = task_of(pipeline, 1), bytearray(1)
    task.feed("p-by", 0, [0], [control_record(ControlMessage("r" * 32, 0, 0, 1, 8, False), 0)], marks=marks)
    assert ([*marks], task.progress.busy) == ([1], False)


def test_a_task_tells_how_much_is_in_flight_and_how_much_more_it_takes() -> None:
    async def work() -> list[tuple[int, int, bool]]:
        task = task_of(calling(max_in_flight=2))
        told = [(task.calls.room("in"), task.calls.in_flight, task.progress.busy)]
        feed(task, "in", *((None, b"1", 0, ()) for _ in range(3)))
        await asyncio.sleep(0)  # one worker for the first call, which starts another
        await asyncio.sleep(0)
        told.append((task.calls.room("in"), task.calls.in_flight, task.progress.busy))
        await until_idle(task)
        return [*told, (task.calls.room("in"), task.calls.in_flight, task.progress.busy)]

    assert asyncio.run(work()) == [(4, 0, False), (1, 2, True), (4, 0, False)]


def test_a_task_without_calls_takes_whatever_comes() -> None:
    task = task_of(counting())
    assert (task.calls.room("in") > 1_000_000, task.calls.in_flight, task.progress.busy) == (True, 0, False)


def test_a_task_that_gives_up_delivers_nothing_more() -> None:
    async def work() -> StageTask:
        task = task_of(calling())
        feed(task, "in", (None, b"1", 0, ()))
        await asyncio.sleep(0)
        task.calls.cancel()
        for _ in range(9):
            await asyncio.sleep(0)
        return task

    task = asyncio.run(work())
    assert (dict(task.drain_outputs()), task.calls.in_flight) == ({}, 0)


def fired(*, exclusive: bool, most: int) -> Pipeline:
    """Panes of a window go through calls."""

    async def told(pane: Pane[str, int]) -> list[str]:
        await asyncio.sleep(0)
        return [f"{pane.window.start} {pane.value}"]

    pipeline = Pipeline("p")
    panes = keyed(pipeline).window(TEN, count(), id="window", exclusive=exclusive)
    panes.async_flat_map(told, id="call", max_in_flight=most).send_to("out", value=str)
    return pipeline


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_firing_is_in_flight_in_pieces_and_takes_messages_meanwhile_or_not(exclusive: bool) -> None:
    most, keys, fed, largest = 5, 300, 0, 0

    async def run() -> None:
        nonlocal fed, largest
        task = task_of(fired(exclusive=exclusive, most=most))
        rows = [(b"%03d" % key, b"1", 0, ()) for key in range(keys)]
        assert task.feed("in", 0, range(keys + 1), [*rows, (b"a", b"1", 10, ())]) == keys + 1
        assert (task.paused, task.excludes, task.halts) == (True, exclusive, exclusive)
        while task.progress.busy or task.paused:
            largest = max(largest, len(task.tracker))
            if task.paused:
                task.go_on()
            if not task.halts and task.calls.room("in"):
                task.feed("in", 0, [keys + fed + 1], [(b"b", b"1", 10 + fed % 9, ())])
                fed += 1
            await asyncio.sleep(0)
        assert not task.excludes
        task.inputs.ends.end("in")
        await until_idle(task)
        (made,) = dict(task.drain_outputs()).values()
        values = [value for _, value, _, _ in made]
        # All that came meanwhile is in the next window.
        assert values == [*[b"0 1"] * keys, b"10 1", *([b"10 %d" % fed] if fed else [])]

    asyncio.run(run())
    assert largest <= 2 * most
    assert (fed > 20) is not exclusive
