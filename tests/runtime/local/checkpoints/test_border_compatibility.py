"""Messages that are left between stages are read as they were written, or the run is refused."""

import os
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from engines.one_window import ms
from engines.sending import KEEPING, stores_of, system_named
from engines.targets import contents, write
from explained import assert_explains, error_of
from fluvial.dsl import FLOAT64, INT64, KeyedStream, Pipeline, PlanError, Serde, count, msgpack, session, tumbling
from fluvial.dsl.message import Record
from fluvial.runtime import Progress, run
from fluvial.runtime.kernel.time.border_watermarks import ControlMessage, control_record, pack_trailer
from fluvial.runtime.local.checkpoints.checkpoint import checkpoints_in, write_checkpoints
from fluvial.runtime.systems import LogSystem, MemorySystem, System

INTERMEDIATE = "p-by"
TEN, FIVE = tumbling(ms(10)), tumbling(ms(5))
Behind = Callable[[KeyedStream[str, int]], None]


def same(value: Any) -> Any:
    return value


def crossing(value: Any, key: Any = str, output: str = "out") -> Pipeline:
    """A pipeline with a border, whose values have this type or serde."""
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", key=str, value=int)
    numbers.partition_by(lambda _: key() if key in (str, int) else 0, id="by", key_type=key, value=value).map(
        same
    ).send_to(output)
    return pipeline


def broadcast(value: Any) -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=int).broadcast(id="by", value=value).map(same).send_to("out")
    return pipeline


def run_more(system: System, pipeline: Pipeline) -> None:
    """Run a pipeline on one more message, to the end of all streams."""
    write(system, {"in": [[(b"k", b"2", 0, ())]]})
    with stores_of(system):
        run(pipeline, system=system, until="end")


UNREAD: Record = (b"", b"1.5" + pack_trailer(0, 0), 0, ())


def leave(system: System, record: Record = UNREAD) -> None:
    """Leave a record between the stages, as a run does that ends before it is read."""
    with closing(system.producer()) as producer:
        writing = producer.begin()
        writing.append(INTERMEDIATE, 0, [record])
        writing.commit()


def forget_borders(system: System) -> None:
    """Let checkpoints be those of a version that kept no schemas of intermediate streams."""
    stored = checkpoints_in(system, "p")
    write_checkpoints(system, "p", {task: structs.replace(one, borders={}) for task, one in stored.items()})


@pytest.fixture(params=KEEPING)
def system(request: pytest.FixtureRequest, tmp_path: Path) -> System:
    return system_named(request.param, tmp_path)


def test_another_serde_is_refused_before_anything_starts(system: System) -> None:
    run_more(system, crossing(FLOAT64))
    leave(system)
    error = error_of(lambda: run_more(system, crossing(INT64, output="another")), PlanError)
    wrong = "messages that partition_by by has left in the stream 'p-by', and that were not read yet, have another "
    wrong += "meaning: values: was float64, is int64; value: was float, is int"
    expected = "the types and serdes that they were written with"
    assert_explains(error, wrong, crossing, expected, "run the version before with --until end", below=4)
    assert system.admin().partitions("another") is None


CHANGES: list[tuple[Pipeline, Pipeline, str]] = [
    (crossing(float), crossing(msgpack(float)), "values: was json, is msgpack"),
    (crossing(float), crossing(int), "value: was float, is int"),
    (crossing(float), crossing(float, int), "key: was str, is int"),
    (crossing(float), broadcast(float), "it was a partition_by, and is a broadcast"),
    (
        crossing(Serde("mine", float, lambda _: b"1", float, layout={"form": "1"})),
        crossing(Serde("mine", float, lambda _: b"1", float, layout={"form": "2"})),
        "values, form: was 1, is 2",
    ),
]


@pytest.mark.parametrize(("before", "after", "change"), CHANGES)
def test_what_reads_messages_otherwise_is_refused(before: Pipeline, after: Pipeline, change: str) -> None:
    system = MemorySystem()
    run_more(system, before)
    leave(system)
    assert change in str(error_of(lambda: run_more(system, after), PlanError))


def per_letter(name: str, assigner: Any, made: Any = count, **options: Any) -> Behind:
    """A window behind the border that is crossed by numbers."""

    def behind(keyed: KeyedStream[str, int]) -> None:
        panes = keyed.window(assigner, made(), id=name, **options)
        panes.map(lambda pane: f"{name} {pane.window.start} {pane.value}").send_to("out", value=str)

    return behind


def also(*behind: Behind) -> Behind:
    def all_of_them(keyed: KeyedStream[str, int]) -> None:
        for one in behind:
            one(keyed)

    return all_of_them


def windowed(behind: Behind) -> Pipeline:
    pipeline = Pipeline("p")
    numbers = pipeline.stream("in", key=str, value=int)
    behind(numbers.partition_by(lambda _: "a", id="by", key_type=str))
    return pipeline


def mapped(keyed: KeyedStream[str, int]) -> None:
    per_letter("w", TEN)(keyed.map(same))


COUNTED: Record = (b"a", b"\xc15" + pack_trailer(0, 0), 9, (("fluvial-partial", b"count 5"),))
"""Five messages of one window of ten milliseconds."""

FOREIGN: list[tuple[str, Behind, str]] = [
    ("one reader more", also(per_letter("w", TEN), per_letter("v", TEN)), "is none"),
    ("another operator", mapped, "is none"),
    ("windows of another size under another id", per_letter("v", FIVE), "is count() for v, by 5 ms"),
    ("sessions under another id", per_letter("v", session(ms(5))), "is none"),
    ("another function under another id", per_letter("v", TEN), "is count() for v, by 10 ms"),
    ("late messages that go to a stream", per_letter("w", TEN, late_to="late"), "is none"),
]


@pytest.mark.parametrize(("behind", "change"), [one[1:] for one in FOREIGN], ids=[one[0] for one in FOREIGN])
def test_partial_aggregates_for_another_reader_are_refused(behind: Behind, change: str) -> None:
    system = MemorySystem()
    run_more(system, windowed(per_letter("w", TEN)))
    leave(system, COUNTED)
    error = error_of(lambda: run_more(system, windowed(behind)), PlanError)
    assert f"partial aggregates: was count() for w, by 10 ms, {change}" in str(error)
    run_more(system, windowed(per_letter("w", TEN)))
    run_more(system, windowed(behind))


def test_those_of_a_run_before_the_last_are_refused_too() -> None:
    system = MemorySystem()
    run_more(system, windowed(per_letter("w", TEN)))
    leave(system, COUNTED)
    alone = windowed(per_letter("w", TEN, combine=False))
    run_more(system, alone)
    assert sorted(record[1] or b"" for record in contents(system, "out")) == [b"w 0 1", b"w 0 7"]
    leave(system, COUNTED)
    error_of(lambda: run_more(system, windowed(per_letter("v", TEN))), PlanError)


def test_windows_of_any_kind_may_follow_where_no_partial_aggregates_were_written() -> None:
    system = MemorySystem()
    run_more(system, windowed(per_letter("w", TEN, combine=False)))
    leave(system, (b"a", b"5" + pack_trailer(0, 0), 9, ()))
    run_more(system, windowed(also(per_letter("w", TEN), per_letter("v", FIVE))))
    leave(system, (b"a", b"5" + pack_trailer(0, 0), 9, ()))
    run_more(system, windowed(per_letter("u", FIVE)))


def test_any_change_goes_where_nothing_is_unread(system: System) -> None:
    run_more(system, crossing(float))
    leave(system, control_record(ControlMessage("r", 1, 0, 1, 5, False), 5))
    run_more(system, crossing(FLOAT64))
    run_more(system, crossing(int, int))
    leave(system)
    # Of all that has written the stream the last counts.
    assert "values: was json, is float64" in str(error_of(lambda: run_more(system, crossing(FLOAT64)), PlanError))


def test_the_same_and_a_wider_type_go_on(system: System) -> None:
    run_more(system, crossing(float))
    leave(system)
    run_more(system, crossing(float))
    leave(system)
    run_more(system, crossing(float | None))
    assert [record[1] for record in contents(system, "out")] == [b"2.0", b"1.5", b"2.0", b"1.5", b"2.0"]
    leave(system)
    assert "value: was float | None" in str(error_of(lambda: run_more(system, crossing(float)), PlanError))


def test_a_stream_without_a_record_is_adopted_once() -> None:
    system = MemorySystem()
    run_more(system, crossing(float))
    forget_borders(system)
    run_more(system, crossing(int, int))
    leave(system)
    assert "key: was int, is str" in str(error_of(lambda: run_more(system, crossing(float)), PlanError))


def test_messages_that_a_stopped_run_has_left_are_refused(tmp_path: Path) -> None:
    """What is unread is left by a clean stop alone, too."""
    system = LogSystem(tmp_path, fsync=False)
    write(system, {"in": [[(b"k", b"%d" % number, number, ()) for number in range(6)]]})
    stopped: list[Progress] = []

    def stop_once_all_is_read(progress: Progress) -> None:
        if progress.lag == 0 and not stopped:
            stopped.append(progress)
            os.kill(os.getpid(), signal.SIGINT)

    run(crossing(FLOAT64), system=system, until="stopped", progress=stop_once_all_is_read)
    if len(contents(system, "out")) < 6:
        error_of(lambda: run(crossing(INT64), system=system, until="end"), PlanError)
    run(crossing(FLOAT64), system=system, until="end")
    run(crossing(INT64), system=system, until="end")
    assert len(contents(system, "out")) == 6
