"""Conformance cases about start points and the offsets of checkpoints, which tools set between two runs."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from engines.targets import contents, write
from fluvial.dsl import Pipeline, PlanError, UsageError
from fluvial.planner import Settings
from fluvial.runtime import committed_offsets, reset, run, set_offsets
from fluvial.runtime.systems import LogSystem

STREAMS = ("p0", "p1", "p2")


def copying(*streams: str) -> Pipeline:
    pipeline = Pipeline("p")
    first, *others = (pipeline.stream(name, value=int) for name in streams)
    (first.merge(*others) if others else first).send_to("out")
    return pipeline


@pytest.fixture
def system(tmp_path: Path) -> LogSystem:
    return LogSystem(tmp_path, fsync=False)


def add(system: LogSystem, stream: str, *values: int) -> None:
    write(system, {stream: [[(None, b"%d" % value, value, ()) for value in values]]})


def went(pipeline: Pipeline, system: LogSystem, **given: Any) -> list[int]:
    """The values that a run adds to the output."""
    before = len(contents(system, "out")) if system.admin().partitions("out") else 0
    run(pipeline, system=system, settings=Settings(**given), until="end")
    return [int(record[1] or b"") for record in contents(system, "out")][before:]


def offsets(pipeline: Pipeline, system: LogSystem) -> dict[str, int]:
    return {row.stream: row.offset for row in committed_offsets(pipeline, system=system)}


def test_o02_a_reset_reads_a_stream_from_where_its_default_is(system: LogSystem) -> None:
    add(system, "in", *range(46))
    went(copying("in"), system)
    reset(copying("in"), system=system)
    assert went(copying("in"), system) == list(range(46))


def test_o04_an_unknown_stream_and_a_wrong_default_are_errors(system: LogSystem) -> None:
    with pytest.raises(UsageError, match="offset_default"):
        Settings(offset_default="fail")  # type: ignore[arg-type]
    add(system, "other", 1)
    with pytest.raises(PlanError, match="in"):
        went(copying("in"), system)
    with pytest.raises(PlanError, match="there is no stream 'in'"):
        set_offsets(copying("in"), {"in": "earliest"}, system=system)


def test_o05_a_stream_that_is_no_input_any_more_has_no_offset(system: LogSystem) -> None:
    for stream in ("in", "gone"):
        add(system, stream, 1, 2)
    went(copying("in", "gone"), system)
    assert offsets(copying("in"), system) == {"in": 2}
    with pytest.raises(UsageError, match="there is no input 'gone'"):
        set_offsets(copying("in"), {"gone": 0}, system=system)


def test_o06_a_start_point_beats_the_checkpoint(system: LogSystem) -> None:
    add(system, "in", *range(46))
    went(copying("in"), system)
    set_offsets(copying("in"), {"in": 23}, system=system)
    assert went(copying("in"), system) == list(range(23, 46))


def test_o06_a_start_point_that_cannot_be_found_leaves_the_checkpoint(system: LogSystem) -> None:
    add(system, "in", *range(45))
    went(copying("in"), system)
    with pytest.raises(UsageError, match="offset 99 is outside"):
        set_offsets(copying("in"), {"in": 99}, system=system)
    add(system, "in", 45)
    assert went(copying("in"), system) == [45]


def test_o08_a_start_point_stays_until_a_commit_has_passed_it(system: LogSystem) -> None:
    for stream in STREAMS:
        add(system, stream, 0, 1, 2)
    went(copying(*STREAMS), system)
    reset(copying(*STREAMS), to=dict.fromkeys(STREAMS, 3), system=system)
    assert went(copying(*STREAMS), system) == []
    assert offsets(copying(*STREAMS), system) == dict.fromkeys(STREAMS, 3)
    add(system, "p0", 3)
    assert went(copying(*STREAMS), system) == [3]
    assert offsets(copying(*STREAMS), system) == {"p0": 4, "p1": 3, "p2": 3}
    # At the same offset as before: it is a start point, and then a checkpoint, and nothing is read twice.
    set_offsets(copying(*STREAMS), {"p1": 3}, system=system)
    assert went(copying(*STREAMS), system) == []


def test_o10_an_input_that_begins_at_its_end_is_caught_up(system: LogSystem) -> None:
    add(system, "in", *range(42))
    set_offsets(copying("in"), {"in": "latest"}, system=system)
    report = run(copying("in"), system=system, until="caught-up")
    assert (sum(report.read.values()), offsets(copying("in"), system)) == (0, {"in": 42})


@pytest.mark.parametrize("point", [10, datetime(1970, 1, 1, 0, 0, 0, 10_000, tzinfo=UTC)])
def test_o11_an_offset_that_is_set_by_hand_is_honoured(system: LogSystem, point: Any) -> None:
    add(system, "in", *range(12))
    reset(copying("in"), to={"in": point}, system=system)
    assert went(copying("in"), system) == [10, 11]
