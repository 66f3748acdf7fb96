"""The engine `local` as a whole: what a run prepares, in which order, and what it leaves behind."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from engines.sending import MemorySender, ProducingSystem
from engines.targets import append, contents, write
from fluvial.dsl import (
    ClockTimers,
    Context,
    KeyedProcessor,
    KeyedStream,
    Message,
    Pipeline,
    SystemProblem,
    Timer,
    count,
    in_threads,
    tumbling,
)
from fluvial.planner import Settings, plan
from fluvial.runtime.kernel.calls.function_pools import loop_pools
from fluvial.runtime.local.coordination.membership import ContainerId
from fluvial.runtime.local.engine import run
from fluvial.runtime.local.open_tasks import close_tasks
from fluvial.runtime.process.machine import THIS_MACHINE
from fluvial.runtime.report import Report
from fluvial.runtime.systems import LogSystem, MemorySystem, System


class Calls:
    """A sink that notes its calls, and fails at one of them."""

    def __init__(self, fails: str = "") -> None:
        self.made: list[str] = []
        self.fails = fails

    def open(self) -> None:
        self._note("open")

    def write(self, messages: Sequence[Message[str]]) -> None:
        self._note(f"write {len(messages)}")

    def flush(self) -> None:
        self._note("flush")

    def close(self) -> None:
        self._note("close")

    def _note(self, call: str) -> None:
        self.made.append(call)
        if call == self.fails:
            raise ValueError(call)


def copying() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out")
    return pipeline


def filled(system: MemorySystem) -> MemorySystem:
    write(system, {"in": [[(None, b"a", 0, ())], [(None, b"b", 0, ())]]})
    return system


def started(pipeline: Pipeline, system: MemorySystem, **words: Any) -> Report:
    return run(plan(pipeline, partitions={"in": 2}), system, words.pop("settings", Settings()), "end", None, **words)


@pytest.mark.parametrize("make", [MemorySystem, ProducingSystem])
def test_a_run_makes_its_streams_and_reports_what_it_did(make: type[MemorySystem]) -> None:
    system = filled(make())
    report = started(copying(), system)
    assert (report.pipeline, report.engine, report.resumed) == ("p", "local", False)
    assert report.read["in"] == 2
    assert report.written["out"] == 2
    assert sorted(record[1] or b"" for record in contents(system, "out")) == [b"a", b"b"]


@pytest.mark.parametrize("make", [MemorySystem, ProducingSystem])
def test_a_second_run_goes_on_behind_the_first(make: type[MemorySystem]) -> None:
    system = filled(make())
    started(copying(), system)
    filled(system)
    assert started(copying(), system).read["in"] == 2
    assert len(contents(system, "out")) == 4


def test_a_container_that_has_done_its_part_reports_nothing_more() -> None:
    system, pipeline = filled(MemorySystem()), Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    first = ContainerId(0, 2)
    assert started(pipeline, system, container_id=first).read == {"in": 1}
    again = started(pipeline, system, container_id=first)
    assert (again.read, again.written) == ({}, {})


def test_a_plan_that_is_refused_has_made_no_stream() -> None:
    system, changed = ProducingSystem(), copying()
    filled(system)
    started(copying(), system)
    before = system.admin().streams()
    system.admin().remove("in")
    filled(system)
    changed.stream("in2", value=str).send_to("new")
    with pytest.raises(SystemProblem, match="is not the one"):
        run(plan(changed, partitions={"in": 2, "in2": 1}), system, Settings(), "end", None)
    assert system.admin().streams() == before


def test_a_sink_is_opened_before_it_is_written_to_and_closed_in_the_end() -> None:
    sink, pipeline = Calls(), Pipeline("p")
    pipeline.stream("in", value=str).sink(sink, id="s")
    started(pipeline, filled(MemorySystem()))
    assert (sink.made[0], sink.made[-1], sink.made.count("open"), sink.made.count("close")) == ("open", "close", 1, 1)
    assert "flush" in sink.made


def test_a_sink_is_closed_also_where_the_run_fails_and_the_place_is_free_again() -> None:
    sink, system, pipeline = Calls("flush"), filled(MemorySystem()), Pipeline("p")
    pipeline.stream("in", value=str).sink(sink, id="s")
    with pytest.raises(Exception, match="flush"):
        started(pipeline, system)
    assert sink.made[-1] == "close"
    sink.fails = ""
    assert started(pipeline, system).read == {"in": 2}


MINUTE = 60_000


def caught_up(pipeline: Pipeline, system: System, now: int) -> Report:
    """A run that catches up, at a time of the clock."""
    machine = replace(THIS_MACHINE, wall=lambda: now)
    return run(plan(pipeline, partitions={"in": 2}), system, Settings(), "caught-up", None, machine=machine)


def add(system: System, *messages: tuple[int, str, int]) -> None:
    for partition, value, time in messages:
        append(system, "in", partition, [(None, value.encode(), time, ())])


def counting(idle_after: timedelta | None) -> Pipeline:
    pipeline = Pipeline("p")
    words: KeyedStream[str, str] = pipeline.stream("in", value=str, idle_after=idle_after).partition_by(
        str, id="by", key_type=str
    )
    words.window(tumbling(timedelta(milliseconds=10)), count(), id="w").map(lambda pane: pane.key).send_to("out")
    return pipeline


@pytest.mark.parametrize("idle_after", [timedelta(minutes=30), None])
def test_the_time_between_two_runs_by_a_schedule_is_silence_of_a_source(
    idle_after: timedelta | None, tmp_path: Path
) -> None:
    """Partition 1 has one message, and none for half an hour; that of partition 0 closes the window then."""
    system = LogSystem(tmp_path, fsync=False)
    system.admin().create("in", 2)
    add(system, (0, "a", 1), (1, "b", 2))
    for minute in range(0, 40, 10):
        now = minute * MINUTE
        add(system, (0, "c", 20 + minute))
        caught_up(counting(idle_after), system, now)
        first_window = [record for record in contents(system, "out") if record[2] == 9]
        assert len(first_window) == (2 if idle_after is not None and minute >= 30 else 0)


def two_sources() -> Pipeline:
    pipeline = Pipeline("p")
    one, other = (pipeline.stream(name, key=str, value=str, idle_after=timedelta(minutes=1)) for name in ("a", "b"))
    panes = one.merge(other).window(tumbling(timedelta(seconds=1)), count(), id="w")
    panes.map(lambda pane: f"{pane.window.start} {pane.value}").send_to("out", value=str)
    return pipeline


@pytest.mark.parametrize("other", [{"a": 20_500}, {}], ids=["messages", "the clock"])
def test_a_source_that_was_idle_is_not_where_messages_of_it_wait_as_a_run_begins(
    other: dict[str, int], tmp_path: Path
) -> None:
    """Those of the other one, which are processed first, would make time pass them, and so would its silence."""
    system, pipeline = LogSystem(tmp_path, fsync=False), two_sources()
    for minute, times in enumerate(({"a": 500, "b": 500}, {"a": 9_500}, {**other, "b": 9_600})):
        for name, at in times.items():
            system.admin().create(name, 1)
            append(system, name, 0, [(b"k", b"v", at, ())])
        machine = replace(THIS_MACHINE, wall=partial(int, minute * MINUTE))
        report = run(plan(pipeline), system, Settings(), "caught-up", None, machine=machine)
        assert sum(report.late.values()) == 0
    assert [record[1] for record in contents(system, "out")] == [b"0 2"]
    run(plan(pipeline), system, Settings(), "end", None)
    last = [b"20000 1"] if other else []
    assert [record[1] for record in contents(system, "out")] == [b"0 2", b"9000 2", *last]


class Reminder(KeyedProcessor[str, str, str]):
    """Tells a key's value a minute later by the clock."""

    clock = ClockTimers()

    def on_message(self, message: Message[str], context: Context[str]) -> list[str]:  # noqa: ARG002
        self.clock.set(message.value, self.clock.now + MINUTE)
        return []

    def on_timer(self, timer: Timer, context: Context[str]) -> list[str]:  # noqa: ARG002
        return [timer.name]


def test_timers_that_were_due_as_a_run_began_fire_in_it(tmp_path: Path) -> None:
    system, pipeline = LogSystem(tmp_path, fsync=False), Pipeline("p")
    system.admin().create("in", 2)
    words = pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str)
    words.process(Reminder(), id="reminder").partition_by(len, id="by-size", key_type=int, value=str).send_to("out")
    add(system, (0, "a", 1), (1, "bb", 2))
    told = []
    for now in (0, MINUTE - 1, MINUTE, 2 * MINUTE):
        caught_up(pipeline, system, now)
        told.append(sorted(record[1] or b"" for record in contents(system, "out")))
    assert told == [[], [], [b"a", b"bb"], [b"a", b"bb"]]


class Asked(ProducingSystem):
    """Notes how long the transactions of its producers may take."""

    def __init__(self) -> None:
        super().__init__()
        self.longest: list[timedelta] = []

    def record_producer(
        self,
        transactional_id: str | None = None,
        *,
        longest: timedelta = timedelta(0),
        once: bool = True,
        streams: Collection[str] = (),
    ) -> MemorySender:
        self.longest.append(longest)
        return super().record_producer(transactional_id, longest=longest, once=once, streams=streams)


@pytest.mark.parametrize(("order", "minutes"), [("none", 2), ("input", 2), ("key", 3)])
def test_a_transaction_may_last_as_long_as_the_calls_that_run_and_then_those_that_wait_to_begin(
    order: Any, minutes: int
) -> None:
    async def call(word: str) -> list[str]:
        return [word]

    system, pipeline = Asked(), Pipeline("p")
    words = pipeline.stream("in", value=str)
    words.async_flat_map(call, id="c", timeout=timedelta(minutes=1), order=order).send_to("out")
    settings = Settings(guarantee="exactly_once", commit_interval=timedelta(seconds=3))
    started(pipeline, filled(system), settings=settings)
    assert timedelta(minutes=minutes) < max(system.longest) < timedelta(minutes=minutes, seconds=10)


def test_the_pools_of_functions_wind_down_before_the_last_tasks_cancel_their_calls() -> None:
    closed: list[str] = []

    class Closed:
        """A pool, or a task, that notes what is asked of it."""

        users = 1

        def wind_down(self) -> None:
            closed.append("pool")

        def close(self) -> None:
            closed.append("task")

    async def main() -> None:
        pool: Any = Closed()
        loop_pools(asyncio.get_running_loop())._pools[in_threads(str, threads=1)] = pool
        tasks: list[Any] = [Closed(), Closed()]
        close_tasks(tasks)

    asyncio.run(main())
    assert closed == ["pool", "task", "task"]
