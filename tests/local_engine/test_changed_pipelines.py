"""A pipeline that was changed goes on where it was, whatever its stages are called now."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest

from engines.sending import ProducingSystem, stores_of
from engines.spark_in_process import queries
from engines.targets import contents, write
from fluvial.dsl import Pipeline, collect, count, tumbling
from fluvial.planner import plan
from fluvial.runtime import reset, run
from fluvial.runtime.systems import LogSystem, MemorySystem, System
from fluvial.runtime.systems.contract import RecordBatch
from fluvial.runtime.testing import PipelineDriver
from generators.changing import changed, restart_with
from generators.counters import Counter

DAY = timedelta(days=1)


def copying(*streams: str) -> Pipeline:
    """A pipeline whose stage is named after the first of the streams."""
    pipeline = Pipeline("p")
    first, *others = [pipeline.stream(name, value=str) for name in streams]
    first.merge(*others).send_to("out") if others else first.send_to("out")
    return pipeline


def counting(*streams: str) -> Pipeline:
    pipeline = Pipeline("p")
    first, *others = [pipeline.stream(name, value=str, key=str) for name in streams]
    keyed = first.merge(*others) if others else first
    keyed.window(tumbling(DAY), count(), id="n").map(lambda pane: pane.value).send_to("out")
    return pipeline


def behind_a_border() -> Pipeline:
    """Its second stage is called "p-by", after what was written first; its tasks go by "b", as they always did."""
    pipeline = Pipeline("p")
    first = pipeline.stream("a", value=str).partition_by(str, id="by", key_type=str)
    first.merge(pipeline.stream("b", value=str, key=str)).process(Counter(), id="n").send_to("out")
    return pipeline


def add(system: System, stream: str, time: int = 0) -> None:
    write(system, {stream: [[(b"k", b"x", time, ())]]})


def values(system: System) -> Sequence[bytes | None]:
    return [record[1] for record in contents(system, "out")]


@pytest.mark.parametrize("system", [MemorySystem(), ProducingSystem()], ids=["published", "sent"])
def test_an_input_before_the_others_begins_nothing_anew(system: System) -> None:
    add(system, "b")
    run(copying("b"), system=system, until="end")
    add(system, "a")
    assert run(copying("a", "b"), system=system, until="end").read == {"a": 1}
    add(system, "b")
    # Under the name that it had first, too, where an older checkpoint is still kept.
    assert run(copying("b"), system=system, until="end").read == {"b": 1}


def test_a_stage_with_changelogs_is_not_begun_anew() -> None:
    system = ProducingSystem()
    with stores_of(system):
        add(system, "b")
        run(counting("b"), system=system, until="end")
        system.stores.clear()
        add(system, "b")
        add(system, "a")
        run(counting("a", "b"), system=system, until="end")
    assert values(system) == [b"1", b"3"]  # the first message is counted once


def test_the_name_of_a_stage_moves_no_state_on_the_log(tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    assert [(stage.id, stage.name) for stage in plan(behind_a_border()).stages] == [("a", "a"), ("b", "p-by")]
    add(log, "a")
    add(log, "b")
    run(behind_a_border(), system=log, until="end")
    assert set(log.admin().checkpoints("p")) == {"a/0", "b/0"}
    add(log, "b")
    run(behind_a_border(), system=log, until="end")
    assert sorted(filter(None, values(log))) == [b"1", b"1", b"2"]
    assert [folder.name for folder in (tmp_path / "state" / "p").iterdir()] == ["b-0"]


def windows(lateness: timedelta = timedelta(0), idle_after: timedelta | None = None) -> Pipeline:
    """Counts messages of two streams, of which the first may be idle, in windows of 10 ms."""
    pipeline = Pipeline("p")
    first = pipeline.stream("a", value=str, key=str, idle_after=idle_after)
    keyed = first.merge(pipeline.stream("b", value=str, key=str))
    keyed.window(tumbling(timedelta(milliseconds=10)), count(), id="n", lateness=lateness).send_to("out")
    return pipeline


def test_a_reset_operator_does_not_remember_what_it_had_forgotten(tmp_path: Path) -> None:
    """It begins empty: a window that had been forgotten under a shorter lateness is as new as any other."""
    log = LogSystem(tmp_path, fsync=False)
    for time in (1, 50):
        add(log, "a", time)
        add(log, "b", time)
    run(windows(), system=log, until="end")
    reset(windows(), states=["n"], system=log)
    add(log, "a", 2)
    assert run(windows(lateness=DAY), system=log, until="end").late == {}


def test_a_longer_lateness_of_an_operator_that_comes_back_begins_no_window_anew(tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    for time in (1, 50):
        add(log, "a", time)
        add(log, "b", time)
    run(windows(), system=log, until="end")
    add(log, "a", 60)
    run(copying("a", "b"), system=log, until="end")
    add(log, "a", 2)
    assert run(windows(lateness=DAY), system=log, until="end").late == {"n": 1}


def test_a_source_without_patience_is_not_idle_any_more() -> None:
    patience = timedelta(milliseconds=10)
    with PipelineDriver(windows(idle_after=patience), start=100) as driver:
        driver.send("a", "x", key="k", timestamp=100)
        driver.send("b", "x", key="k", timestamp=100)
        driver.advance(5 * patience)  # the time of "a" goes on, and "b" holds it back
        restart_with(driver, windows())
        for stream, time in (("a", 110), ("b", 150), ("a", 111), ("a", 125)):
            driver.send(stream, "x", key="k", timestamp=time)
        assert driver.state.watermark("n") == 125
        assert driver.report().late == {}


def counting_twice(*, both: bool) -> Pipeline:
    """Two counters on one stream, of which the second may be left out."""
    pipeline = Pipeline("p")
    keyed = pipeline.stream("a", value=str, key=str)
    keyed.process(Counter(), id="n").send_to("out")
    if both:
        keyed.process(Counter(), id="m").send_to("second")
    return pipeline


@pytest.mark.parametrize("lost", [False, True])
def test_an_operator_that_comes_back_finds_its_state_in_its_changelog(lost: bool) -> None:
    system = ProducingSystem()
    with stores_of(system):
        for both in (True, True, False, True):
            add(system, "a")
            if lost:
                system.stores.clear()
            run(counting_twice(both=both), system=system, until="end")
    assert values(system) == [b"1", b"2", b"3", b"4"]
    assert [record[1] for record in contents(system, "second")] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("system", [MemorySystem(), ProducingSystem()], ids=["published", "sent"])
def test_an_input_that_comes_back_is_gone_on_with(system: System) -> None:
    add(system, "a")
    add(system, "b")
    run(copying("a", "b"), system=system, until="end")
    add(system, "b")
    run(copying("a"), system=system, until="end")
    assert run(copying("a", "b"), system=system, until="end").read == {"b": 1}


def same(value: str) -> str:
    return value


def meeting(*, renumbered: bool = False) -> Pipeline:
    """A window behind two sources that meet, beside two others that meet; one source is idle after a while."""
    pipeline = Pipeline("p")
    late = timedelta(seconds=30)
    a, b, c, d = (pipeline.stream(name, key=str, value=str) for name in "abcd")
    e = pipeline.stream("e", key=str, value=str, idle_after=late)
    ours, theirs = (a.map(same) if renumbered else a).merge(b), c.merge(d)
    panes = ours.window(tumbling(timedelta(milliseconds=10)), collect(), id="w")
    panes.map(lambda pane: "".join(pane.value)).send_to("out")
    ours.join(theirs, lambda one, other: one + other, within=timedelta(milliseconds=5), id="j").send_to("joined")
    e.join(a, lambda one, other: one + other, within=timedelta(milliseconds=1), id="idle").send_to("joined")
    return pipeline


@pytest.mark.parametrize("renumbered", [False, True])
def test_operators_that_are_numbered_anew_take_no_time_from_each_other(renumbered: bool) -> None:
    with PipelineDriver(meeting()) as driver:
        for stream, time in (("a", 5), ("b", 5), ("c", 1000), ("d", 1000)):
            driver.send(stream, stream, key="k", timestamp=time)
        driver.commit()
        restart_with(driver, meeting(renumbered=renumbered))
        for stream, time in (("a", 7), ("b", 8), ("a", 21), ("b", 21)):
            driver.send(stream, stream.upper(), key="k", timestamp=time)
        assert [message.value for message in driver.read("out")] == ["abAB"]


@pytest.mark.parametrize("renumbered", [False, True])
def test_operators_that_are_numbered_anew_take_no_time_from_each_other_on_spark(renumbered: bool) -> None:
    (query,) = queries(plan(meeting()))
    query.batch([batch(stream, time) for stream, time in (("a", 5), ("b", 5), ("c", 1000), ("d", 1000))])
    query = changed(query, meeting(renumbered=renumbered))
    query.batch([batch(stream, time, offset=1) for stream, time in (("a", 7), ("b", 8))])
    query.batch([batch(stream, time, offset=2) for stream, time in (("a", 21), ("b", 21))])
    assert [message.value for message in query.written["out"]] == [b'"abab"']


def batch(stream: str, time: int, offset: int = 0) -> RecordBatch:
    return RecordBatch(stream, 0, [offset], [(b"k", stream.encode(), time, ())])
