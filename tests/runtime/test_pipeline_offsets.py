"""The offsets that a pipeline goes on from are shown, set, exported and imported; what else it keeps stays."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from itertools import count as numbers
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engines.sending import Fate, Killed, ProducingSystem, stores_of
from engines.targets import contents, write
from faults.mortal_log import MortalLog
from fluvial.dsl import (
    Pipeline,
    PlanError,
    SystemProblem,
    UnsupportedError,
    UsageError,
    count,
    tumbling,
)
from fluvial.planner import Settings, plan
from fluvial.runtime import committed_offsets, export_offsets, import_offsets, reset, run, set_offsets
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in
from fluvial.runtime.local.coordination import exclusion
from fluvial.runtime.local.input_offsets import changes_of, write_offsets
from fluvial.runtime.local.reset_steps import stopped
from fluvial.runtime.systems import LogSystem, MemorySystem, System
from generators.counters import Counter


def counting(name: str = "p") -> Pipeline:
    """Counts messages by key, and passes them on."""
    pipeline = Pipeline(name)
    words = pipeline.stream("in", key=str, value=int)
    words.process(Counter(), id="count").send_to("counts")
    words.send_to("copies")
    return pipeline


def copying(name: str = "p") -> Pipeline:
    pipeline = Pipeline(name)
    pipeline.stream("in", key=str, value=int).send_to("copies")
    return pipeline


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exclusion, "ANSWER_SECONDS", 0.05)


@pytest.fixture(params=["log", "sent"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], System]:
    """Makes a system that nobody has used."""
    each = numbers()
    return lambda: LogSystem(tmp_path / str(next(each)), fsync=False) if request.param == "log" else ProducingSystem()


@pytest.fixture
def system(make: Callable[[], System]) -> System:
    return make()


def add(system: System, *values: int, partition: int = 0, partitions: int = 1, at: int = 0) -> None:
    """Add messages of one key, one second apart from a time on, in ms."""
    records = [(b"k", b"%d" % value, at + 1000 * index, ()) for index, value in enumerate(values)]
    write(system, {"in": [records if number == partition else [] for number in range(partitions)]})


def went(pipeline: Pipeline, system: System, of: str = "copies", **given: Any) -> list[bytes | None]:
    """What a run adds to an output."""
    before = len(contents(system, of)) if system.admin().partitions(of) else 0
    with stores_of(system):
        run(pipeline, system=system, until="end", settings=Settings(**given))
    return [record[1] for record in contents(system, of)][before:]


def offsets(pipeline: Pipeline, system: System, **given: Any) -> dict[tuple[str, str, int], int]:
    rows = committed_offsets(pipeline, system=system, settings=Settings(**given))
    return {(row.task, row.stream, row.partition): row.offset for row in rows}


def test_offsets_are_shown_with_lag_and_commit(system: System) -> None:
    system.admin().create("in", 1)
    assert committed_offsets(counting(), system=system) == []
    add(system, 1, 2, 3)
    went(counting(), system)
    add(system, 4, 5)
    (row,) = committed_offsets(counting(), system=system)
    assert (row.task, row.stream, row.partition, row.offset, row.lag, row.between) == ("in/0", "in", 0, 3, 2, False)
    assert row.commit >= 1


def test_messages_are_processed_again_and_state_counts_them_again(system: System) -> None:
    add(system, 1, 2, 3)
    went(counting(), system)
    done = set_offsets(counting(), {"in": 1}, system=system)
    assert [str(change) for change in done.changes] == ["in, partition 0, in task in/0: from 3 to 1, 2 back"]
    assert done.notes[0] == (
        "up to 2 messages of in are processed again: outputs are written again, and the state of process count takes "
        "them in again"
    )
    assert went(counting(), system, "counts") == [b"4", b"5"]


def test_a_message_is_skipped_and_state_stays(system: System) -> None:
    add(system, 1, 2)
    went(counting(), system)
    add(system, 3, 4, 5)
    done = set_offsets(counting(), {"in/0": 3}, system=system)
    assert (done.changes[0].before, done.changes[0].back, done.notes) == (2, False, ())
    assert went(counting(), system, "counts") == [b"3", b"4"]


def test_a_dry_run_sets_nothing(system: System) -> None:
    add(system, 1, 2)
    went(counting(), system)
    assert set_offsets(counting(), {"in": "earliest"}, system=system, dry_run=True).changes[0].offset == 0
    assert offsets(counting(), system) == {("in/0", "in", 0): 2}


def test_a_time_is_that_of_the_first_record_which_is_not_older(system: System) -> None:
    add(system, 1, 2, 3, at=10_000)
    went(copying(), system)
    moment = datetime(1970, 1, 1, 0, 0, 10, 500_000, tzinfo=UTC)
    set_offsets(copying(), {"in": moment}, system=system)
    assert went(copying(), system) == [b"2", b"3"]
    set_offsets(copying(), {"in": moment + timedelta(hours=1)}, system=system)
    assert offsets(copying(), system) == {("in/0", "in", 0): 3}


def test_event_time_stays_where_it_was(system: System) -> None:
    """A window that has fired does not fire again: what is read again is late."""

    def windows() -> Pipeline:
        pipeline = Pipeline("p")
        stream = pipeline.stream("in", key=str, value=int)
        stream.window(tumbling(timedelta(seconds=1)), count(), id="w").map(lambda pane: pane.value).send_to("counts")
        return pipeline

    add(system, 1, 2, 3)
    with stores_of(system):
        run(windows(), system=system, until="caught-up")
    assert len(contents(system, "counts")) == 2
    set_offsets(windows(), {"in": "earliest"}, system=system)
    with stores_of(system):
        report = run(windows(), system=system, until="caught-up")
    assert len(contents(system, "counts")) == 2
    assert sum(report.late.values()) == 2


@pytest.mark.parametrize("elasticity", [1, 4])
def test_messages_that_key_buckets_read_again_are_reported_once(system: System, elasticity: int) -> None:
    add(system, 1, 2, 3)
    went(counting(), system, elasticity=elasticity)
    done = set_offsets(counting(), {"in": 1}, system=system, settings=Settings(elasticity=elasticity))
    assert len(done.changes) == elasticity
    assert done.notes[0].startswith("up to 2 messages of in are processed again")


@pytest.mark.parametrize("name", [1, b"in", None])
def test_a_name_that_is_no_text_is_refused(system: System, name: Any) -> None:
    add(system, 1)
    with pytest.raises(UsageError, match="the name of a stream"):
        set_offsets(counting(), {name: 0}, system=system)


@pytest.mark.parametrize("elasticity", [1, 2])
def test_all_key_buckets_of_a_partition_are_set(system: System, elasticity: int) -> None:
    for partition in (0, 1):
        add(system, *range(20), partition=partition, partitions=2)
    went(copying(), system, elasticity=elasticity)
    set_offsets(copying(), {"in/1": 4}, system=system, settings=Settings(elasticity=elasticity))
    found = offsets(copying(), system, elasticity=elasticity)
    assert {offset for (_, _, partition), offset in found.items() if partition == 1} == {4}
    assert {offset for (_, _, partition), offset in found.items() if partition == 0} == {20}
    assert len(found) == 2 * elasticity
    # As they are split now, whatever the next run is to have.
    set_offsets(copying(), {"in/1": 5}, system=system)
    assert {*went(copying(), system)} == {b"%d" % value for value in range(5, 20)}


def test_partitions_that_came_since_are_set_with_the_others() -> None:
    system = ProducingSystem()
    add(system, 1, 2)
    went(copying(), system)
    system.grow("in", 2)
    add(system, 3, 4, partition=1, partitions=2)
    done = set_offsets(copying(), {"in": "earliest", "in/1": 1}, system=system)
    assert [(change.partition, change.before, change.offset) for change in done.changes] == [(0, 2, 0), (1, None, 1)]
    assert sorted(went(copying(), system), key=str) == [b"1", b"2", b"4"]


def test_tasks_that_are_grouped_by_stream_are_set(system: System) -> None:
    def merged() -> Pipeline:
        pipeline = Pipeline("p")
        pipeline.stream("in", value=int).merge(pipeline.stream("more", value=int)).send_to("copies")
        return pipeline

    given: dict[str, Any] = {"group_by": "stream-partition"}
    add(system, 1, 2)
    write(system, {"more": [[(None, b"7", 0, ()), (None, b"8", 0, ())]]})
    went(merged(), system, **given)
    set_offsets(merged(), {"more": 1}, system=system, settings=Settings(**given))
    assert went(merged(), system, **given) == [b"8"]


def test_a_pipeline_that_has_never_run_begins_there(system: System) -> None:
    for partition in (0, 1):
        add(system, 1, 2, 3, partition=partition, partitions=2)
    set_offsets(copying(), {"in/0": 2}, system=system, settings=Settings(offset_default="latest"))
    assert went(copying(), system, offset_default="latest") == [b"3"]


def test_a_stage_that_had_another_name_goes_on_there(system: System) -> None:
    def read(*streams: str) -> Pipeline:
        pipeline = Pipeline("p")
        first, *others = (pipeline.stream(name, key=str, value=int) for name in streams)
        first.merge(*others).send_to("copies") if others else first.send_to("copies")
        return pipeline

    add(system, 1, 2, 3)
    write(system, {"before": [[]]})
    went(read("in"), system)
    set_offsets(read("before", "in"), {"in": 1}, system=system)
    assert went(read("before", "in"), system) == [b"2", b"3"]


def test_rows_of_a_table_are_read_from_there(system: System) -> None:
    def table() -> Pipeline:
        pipeline = Pipeline("p")
        pipeline.table("in", key=str, value=int).changes().send_to("copies")
        return pipeline

    add(system, 1, 2, 3)
    with pytest.raises(PlanError, match="table 'in' has no rows in task 'in/0' yet"):
        set_offsets(table(), {"in": "latest"}, system=system)
    went(table(), system)
    set_offsets(table(), {"in": 1}, system=system)
    assert went(table(), system) == [b"2", b"3"]


@pytest.mark.parametrize(
    ("inputs", "error", "wrong"),
    [
        ({"in": 9}, UsageError, "offset 9 is outside of stream 'in', partition 0"),
        ({"in/3": 0}, UsageError, "stream 'in' has no partition '3'"),
        ({"out": 0}, UsageError, "there is no input 'out'"),
        ({"in": datetime(2026, 3, 1)}, UsageError, "start point datetime"),
        ({"in": "soon"}, UsageError, "start point 'soon'"),
        ({"in": True}, UsageError, "start point True"),
        ({"p-by": "latest"}, PlanError, "stream 'p-by' is between two stages"),
        ({}, UsageError, "inputs={}"),
    ],
)
def test_what_cannot_be_set_is_refused(
    system: System, inputs: Mapping[str, Any], error: type[Exception], wrong: str
) -> None:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=int).partition_by(str, id="by", key_type=str).send_to("out")
    add(system, 1)
    with pytest.raises(error, match=wrong):
        set_offsets(pipeline, inputs, system=system)
    assert checkpoints_in(system, "p") == {}


def test_one_offset_for_several_partitions_is_refused(system: System) -> None:
    add(system, 1, partitions=2)
    with pytest.raises(UsageError, match="offset 0 for all partitions of 'in'"):
        set_offsets(copying(), {"in": 0}, system=system)


def test_spark_and_memory_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="engine 'spark'"):
        set_offsets(copying(), {"in": "latest"}, system="memory:", engine="spark")
    memory = MemorySystem()
    memory.admin().create("in", 1)
    with pytest.raises(UnsupportedError, match="checkpoints on memory: cannot be shown or set"):
        committed_offsets(copying(), system=memory)
    with pytest.raises(UnsupportedError, match="reset to 'latest' with engine 'spark'"):
        reset(copying(), to="latest", system=memory, engine="spark")


def test_nothing_is_set_while_a_container_is_alive(tmp_path: Path) -> None:
    system = LogSystem(tmp_path, fsync=False)
    add(system, 1)
    went(copying(), system)
    with system.claim("p"), pytest.raises(SystemProblem):
        set_offsets(copying(), {"in": 0}, system=system)
    assert offsets(copying(), system) == {("in/0", "in", 0): 1}


def test_a_stream_that_was_made_anew_is_set_as_a_whole_or_not_at_all() -> None:
    system = ProducingSystem()
    for partition in (0, 1):
        add(system, 1, 2, partition=partition, partitions=2)
    went(copying(), system)
    system.admin().remove("in")
    for partition in (0, 1):
        add(system, 5, 6, 7, partition=partition, partitions=2)
    with pytest.raises(SystemProblem, match="is not the one that pipeline 'p' has read"):
        set_offsets(copying(), {"in/0": 0}, system=system)
    set_offsets(copying(), {"in": "earliest", "in/1": 2}, system=system)
    assert went(copying(), system) == [b"5", b"6", b"7", b"7"]


def test_offsets_go_to_another_system(make: Callable[[], System], tmp_path: Path) -> None:
    here, there = make(), make()
    for system in (here, there):
        add(system, 1, 2, 3)
    went(copying(), here)
    add(here, 4)
    add(there, 4)
    record, notes = export_offsets(copying(), tmp_path / "offsets.json", system=here)
    assert (record.tasks, notes) == ({"in/0": {"in/0": 3}}, [])
    done = import_offsets(copying(), tmp_path / "offsets.json", system=there)
    assert [(change.before, change.offset) for change in done.changes] == [(None, 3)]
    assert went(copying(), there) == [b"4"]
    import_offsets(copying(), tmp_path / "offsets.json", system=there)
    assert went(copying(), there) == [b"4"]


def test_a_file_that_does_not_fit_is_refused(system: System, tmp_path: Path) -> None:
    file = tmp_path / "offsets.json"
    add(system, 1, 2)
    with pytest.raises(PlanError, match="pipeline 'p' has not committed: task 'in/0' has no offset in in/0"):
        export_offsets(copying(), file, system=system)
    went(copying(), system)
    export_offsets(copying(), file, system=system)
    with pytest.raises(UsageError, match="has the offsets of pipeline 'p'"):
        import_offsets(copying("q"), file, system=system)
    whole = file.read_text()
    for changed, error, wrong in [
        (whole.replace('"in/0": 2', '"in/0": 9'), UsageError, "offset 9 is outside"),
        (whole.replace('"in/0": {', '"in/1": {'), PlanError, "is of other tasks"),
        (whole.replace('"version": 1', '"version": 2'), UsageError, "has version 2"),
        (whole.replace('"in/0": 2', '"in": 2'), UsageError, "'in' is no STREAM/PARTITION"),
        ("{}", UsageError, "does not hold offsets"),
    ]:
        file.write_text(changed)
        with pytest.raises(error, match=wrong):
            import_offsets(copying(), file, system=system)
    with pytest.raises(UsageError, match="cannot be read"):
        import_offsets(copying(), tmp_path / "none.json", system=system)
    with pytest.raises(UsageError, match="cannot be written"):
        export_offsets(copying(), tmp_path / "no" / "folder.json", system=system)


def test_an_export_tells_of_messages_between_stages(system: System, tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    stream = pipeline.stream("in", key=str, value=int)
    stream.partition_by(str, id="by", key_type=str).send_to("copies")
    add(system, 1)
    went(pipeline, system)
    write(system, {"p-by": [[(b"1", b"1", 0, ())]]})
    _, notes = export_offsets(pipeline, tmp_path / "offsets.json", system=system)
    assert notes
    assert notes[0].startswith("p-by, between two stages, has messages that are not read yet")


def test_after_a_crash_all_offsets_are_set_or_none(tmp_path: Path) -> None:
    """A store has a checkpoint of its own; a run accepts it wherever the write was cut off."""
    fate, counts = Fate(), list[list[bytes | None]]()
    for steps in numbers():
        system = LogSystem(tmp_path / str(steps), fsync=False)
        add(system, 1, 2, 3)
        went(counting(), system)
        fate.left = steps
        with suppress(Killed):
            set_offsets(counting(), {"in": 1}, system=MortalLog(system.directory, fate))
        counts.append(went(counting(), system, "counts"))
        if fate.left >= 0:
            break
    wrote = [*map(bool, counts)]
    assert [one for one in counts if one] == [[b"4", b"5"]] * sum(wrote)
    assert wrote == sorted(wrote), "nothing is set up to some step, and all from there on"
    assert not wrote[0]
    assert sum(wrote) > 1, "one was killed with all set, and the last was not killed"


@pytest.mark.slow
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 6)), min_size=1, max_size=5))
def test_what_is_read_is_what_lies_behind_the_offsets(make: Callable[[], System], moves: list[tuple[int, int]]) -> None:
    """However messages come and offsets are set, a run processes what is behind the offset once, and counts go on."""
    system, seen, total = make(), 0, 0
    add(system)
    for more, wanted in moves:
        add(system, *range(seen, seen + more))
        seen += more
        start = min(wanted, seen)
        set_offsets(counting(), {"in": start}, system=system)
        went_on = went(counting(), system, "counts")
        assert went_on == [b"%d" % number for number in range(total + 1, total + 1 + seen - start)]
        total += seen - start


def test_a_reset_begins_at_start_points(system: System) -> None:
    for partition in (0, 1):
        add(system, 1, 2, 3, partition=partition, partitions=2, at=10_000)
    went(counting(), system)
    steps = reset(counting(), to={"in": datetime(1970, 1, 1, 0, 0, 11, tzinfo=UTC), "in/1": 2}, system=system)
    assert str(steps[-1]) == "start in/0 at 1, in/1 at 2"
    assert "checkpoint" not in {step.kind for step in steps}
    assert went(counting(), system, "counts") == [b"1", b"2", b"1"]


def test_a_start_point_stays_until_a_commit_is_behind_it(system: System) -> None:
    add(system, 1, 2, 3)
    went(counting(), system)
    reset(counting(), to="latest", system=system)
    assert went(counting(), system, "counts") == []
    add(system, 4)
    assert went(counting(), system, "counts") == [b"1"]
    assert went(counting(), system, "counts") == []


def test_a_table_is_read_from_its_start_wherever_others_begin(system: System) -> None:
    def joined() -> Pipeline:
        pipeline = Pipeline("p")
        rows = pipeline.table("rows", key=str, value=int)
        words = pipeline.stream("in", key=str, value=int)
        words.join(rows, lambda left, right: left + right, id="join").send_to("copies")
        return pipeline

    write(system, {"rows": [[(b"k", b"100", 0, ())]]})
    add(system, 1, 2)
    went(joined(), system)
    reset(joined(), to="latest", system=system)
    add(system, 3)
    assert went(joined(), system) == [b"103"]
    with pytest.raises(UsageError, match="there is no input 'rows' whose offset can be set"):
        reset(joined(), to={"rows": "latest"}, system=system)


def test_a_reset_that_was_cut_off_is_refused_or_done_again(system: System) -> None:
    add(system, 1, 2)
    went(counting(), system)
    for step in reset(counting(), to="latest", system=system, dry_run=True)[:-1]:
        step.remove()
    with pytest.raises((SystemProblem, PlanError)):
        went(counting(), system)
    reset(counting(), to="latest", system=system)
    add(system, 3)
    assert went(counting(), system, "counts") == [b"1"]


@pytest.mark.parametrize("others", [{"states": ["count"]}, {"inputs": ["in"]}])
def test_start_points_go_with_nothing_else(system: System, others: dict[str, Any]) -> None:
    add(system, 1)
    with pytest.raises(UsageError, match="to= together with"):
        reset(counting(), to="latest", system=system, **others)


def test_offsets_of_tasks_are_planned_before_they_are_written(system: System) -> None:
    """What `set_offsets` does with a plan, by itself: nothing changes before it is written."""
    add(system, 1, 2)
    went(copying(), system)
    planned = plan(copying())
    with stopped(planned, system, Settings()):
        stored = checkpoints_in(system, "p")
        changes, changed = changes_of(planned, system, Settings(), stored, {"in/0": {("in", 0): 1}})
        assert offsets(copying(), system) == {("in/0", "in", 0): 2}
        write_offsets(planned, system, Settings(), changed)
    assert [change.offset for change in changes] == [1]
    assert offsets(copying(), system) == {("in/0", "in", 0): 1}
