"""Processors and time: states that age, timers, and what is behind them."""

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

import pytest

from engines.stages import feed, program_of, task_of
from fluvial.dsl import Context, Message, MessageError, Pipeline, Timer, tumbling
from fluvial.dsl import count as counted
from fluvial.runtime.kernel.stage import StageTask
from fluvial.runtime.kernel.time.bounds import START
from fluvial.runtime.state import MemoryStore
from fluvial.runtime.testing import PipelineDriver
from generators.everything import Everything, driver, one, sent, values


def test_what_is_old_reads_as_absent_and_goes_for_good() -> None:
    def code(it: Everything, message: Message[str], _: Context[str]) -> Iterator[str]:
        yield f"{it.short.value} {list(it.brief)} {dict(it.passing)}"
        if message.value:
            it.short.value = message.value
            it.brief.append(len(message.value))
            it.passing[len(message.value)] = message.value

    task = task_of(one(code))
    records = [(b"k", b"a", 0), (b"k", b"bb", 9), (b"k", b"", 10), (b"k", b"", 18), (b"k", b"", 19)]
    made = feed(task, "in", *((key, value, time, ()) for key, value, time in records))
    assert [record[1] for record in made["send_to-3"]] == [
        b"None [] {}",
        b"a [1] {1: 'a'}",
        b"bb [1, 2] {2: 'bb'}",
        b"bb [1, 2] {2: 'bb'}",
        b"None [] {}",
    ]
    feed(task, "in", (b"z", b"", 2_000, ()))
    assert [change for change in task.state.changes() if change[2] is not None] == []


def test_a_write_by_a_timer_is_as_old_as_the_timer() -> None:
    def code(_: Everything, message: Message[str], context: Context[str]) -> Iterable[str]:
        context.timers.set("write", message.timestamp + 100)
        context.timers.set("early", message.timestamp + 109)
        context.timers.set("late", message.timestamp + 110)
        return []

    def ring(it: Everything, timer: Timer, _: Context[str]) -> Iterable[str]:
        if timer.name == "write":
            it.short.value = "there"
        return [f"{timer.name} {it.short.value}"]

    with driver(code, ring) as made:
        made.send("in", "", key="k", timestamp=0)
        made.end()
        assert values(made) == ["write there", "early there", "late None"]


def ring_name(_: Everything, timer: Timer, context: Context[str]) -> list[str]:
    return [f"{timer.name}@{timer.time} in {context.watermark}"]


def set_them(_: Everything, message: Message[str], context: Context[str]) -> None:
    """Timers as the message says: a=5,b=7."""
    for word in filter(None, message.value.split(",")):
        name, __, time = word.partition("=")
        if time:
            context.timers.set(name, int(time))
        else:
            context.timers.delete(name)


@pytest.mark.parametrize("commits", [False, True])
def test_timers_fire_in_the_order_of_their_times_then_names(commits: bool) -> None:
    messages = [("k", "c=30,b=20,a=20,far=99999999", 0), ("k", "b=31", 1), ("l", "", 50), ("l", "", 51)]
    assert sent(set_them, *messages, ring=ring_name, commits=commits) == ["a@20 in 20", "c@30 in 30", "b@31 in 31"]


@pytest.mark.parametrize("later", [70, 70_000, 7_000_000, 70_000_000, 7_000_000_000])
def test_a_timer_is_kept_however_far_its_time_is(later: int) -> None:
    messages = [("k", f"a={later},b={later}", 0), ("k", "a=69,b", 1), ("k", f"a={later + 1}", 2), ("l", "", later)]
    messages += [("l", "", later + 1)]
    assert sent(set_them, *messages, ring=ring_name, commits=True) == [f"a@{later + 1} in {later + 1}"]


def test_a_timer_that_is_deleted_and_set_again_fires_once() -> None:
    messages = [("k", "a=10", 0), ("k", "a", 1), ("k", "a=20", 2), ("l", "", 15), ("l", "", 30)]
    assert sent(set_them, *messages, ring=ring_name) == ["a@20 in 20"]


def test_a_timer_for_a_time_that_has_passed_fires_when_time_moves_on() -> None:
    with driver(set_them, ring_name) as made:
        made.send("in", "", key="l", timestamp=100)
        made.send("in", "a=20,b=10", key="k", timestamp=100)
        assert values(made) == []
        made.send("in", "", key="l", timestamp=101)
        assert values(made) == ["b@10 in 101", "a@20 in 101"]
        assert [message.timestamp for message in made.read("out")] == [10, 20]


def test_at_the_end_all_timers_fire_once_and_those_set_meanwhile_wait() -> None:
    def ring(_: Everything, timer: Timer, context: Context[str]) -> list[str]:
        context.timers.set("next", timer.time + 10)
        if timer.name == "a":
            context.timers.delete("b")
            context.timers.set("c", 1_000)
        return [f"{timer.name} {timer.time}"]

    task = task_of(one_with(ring))
    feed(task, "in", (b"k", b"a=50,b=60,c=70,d=80", 0, ()))
    store = MemoryStore()
    task.inputs.ends.end("in")
    assert told(task) == ["a 50", "d 80"]
    store.write(task.state.changes())
    again = StageTask(program_of(one_with(ring)), store, position=task.position())
    assert [record[1] for record in feed(again, "in", (b"l", b"", 95, ()))["send_to-3"]] == [b"next 90"]
    again.inputs.ends.end("in")
    assert told(again) == ["next 100", "c 1000"]


def one_with(ring: Any) -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).process(Everything(set_them, ring), id="it").send_to("out", value=str)
    return pipeline


def told(task: StageTask) -> list[str]:
    return [record[1].decode() for _, made in task.drain_outputs() for record in made]


def test_windows_behind_a_processor_meet_the_time_that_it_has_come_to() -> None:
    pipeline = Pipeline("p")
    rung = pipeline.stream("in", key=str, value=str).process(Everything(set_them, ring_name), id="it")
    rung.window(tumbling(timedelta(milliseconds=10)), counted(), id="window").send_to("out")
    with PipelineDriver(pipeline) as made:
        made.send("in", "a=5,b=9,c=10,d=25", key="k", timestamp=0)
        made.send("in", "", key="k", timestamp=100)
        assert [(pane.window.start, pane.value) for pane in values(made)] == [(0, 2), (10, 1), (20, 1)]
        assert made.report().late == {}


def test_the_watermark_has_a_beginning() -> None:
    assert sent(lambda _, __, context: [str(context.watermark)], ("k", "", 5), ("k", "", 6)) == [str(START), "5"]


@pytest.mark.parametrize(
    ("name", "time", "told"), [("a", "x", "is an int, ms"), ("a", 2**63, "ms since"), (3, 3, "is a str")]
)
def test_a_timer_has_a_name_and_a_time(name: Any, time: Any, told: str) -> None:
    with pytest.raises(MessageError, match=told):
        sent(lambda _, __, context: context.timers.set(name, time), ("k", "", 0))
