"""What is checked before a run begins, and what an engine is given."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engines.targets import contents, write
from explained import assert_explains, error_of
from fluvial.dsl import FluvialError, MissingExtraError, Pipeline, PlanError, UnsupportedError, UsageError
from fluvial.planner import Settings
from fluvial.runtime import run as typed_run
from fluvial.runtime.data_frames.bindings import DataFrames, data_frames
from fluvial.runtime.launch import check_containers, checked_plan, prepared, refuse_impossible
from fluvial.runtime.local.coordination.membership import ContainerId
from fluvial.runtime.preflight.requirements import missing
from fluvial.runtime.systems import LogSystem, MemorySystem
from fluvial.runtime.testing import PipelineDriver

run: Any = typed_run  # wrong arguments are what is tested


def test_a_thread_whose_event_loop_runs_is_refused_and_another_one_is_not() -> None:
    async def cell() -> None:
        for refused in (lambda: run(copying(), system=filled(), until="end"), lambda: PipelineDriver(copying())):
            with pytest.raises(UsageError) as told:
                refused()
            assert_explains(
                told.value, "in a thread whose event loop runs", None, "a thread without one", "asyncio.to_thread"
            )
        report = await asyncio.to_thread(run, copying(), system=filled(), until="end")
        assert report.written == {"out": 2}

    asyncio.run(cell())


def copying() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    return pipeline


def filled() -> MemorySystem:
    system = MemorySystem()
    write(system, {"in": [[(None, b"a", 0, ())], [(None, b"b", 0, ())]]})
    return system


@pytest.mark.parametrize(
    ("options", "wrong", "expected"),
    [
        ({"until": "never"}, "until='never'", '"stopped", "caught-up" or "end"'),
        ({"engine": "flink"}, "engine='flink'", '"local" or "spark"'),
        ({"progress": 3}, "progress=3", "a function that is given a Progress"),
        ({"metrics": 3}, "metrics=3", "a Metrics, or None"),
    ],
)
def test_a_wrong_argument_is_reported(options: dict[str, Any], wrong: str, expected: str) -> None:
    error = error_of(lambda: run(copying(), **{"system": filled(), "until": "end"} | options), UsageError)
    assert wrong in str(error)
    assert expected in str(error)


def test_a_stream_that_does_not_exist_is_reported_with_those_that_do() -> None:
    system = MemorySystem()
    system.admin().create("inn", 1)
    place: Callable[[], object] = lambda: checked_plan(copying(), system, Settings())  # noqa: E731
    assert_explains(
        error_of(place, PlanError), "stream 'in' does not exist in memory:; it has inn", copying, "a stream", "name", 2
    )


def test_a_plan_has_the_partitions_that_are_there_or_fewer_that_are_asked_for() -> None:
    system = filled()
    assert checked_plan(copying(), system, Settings()).stream("in").partitions == 2
    assert checked_plan(copying(), system, Settings(), {"in": 1, "gone": 5}).stream("in").partitions == 1


@pytest.mark.parametrize(("engine", "wrong"), [("local", "which other processes cannot see"), ("spark", "engine=")])
def test_several_containers_need_what_they_can_share(engine: str, wrong: str) -> None:
    check_containers(engine, MemorySystem(), 1)
    assert wrong in str(error_of(lambda: check_containers(engine, MemorySystem(), 2), UnsupportedError))


def test_what_a_caller_is_about_to_write_counts_as_there() -> None:
    system = MemorySystem()
    refuse_impossible(copying(), "local", system, Settings(), {"in": None})
    assert system.admin().streams() == {}
    error_of(lambda: refuse_impossible(copying(), "local", system, Settings(), {}), PlanError)


def test_an_engine_that_is_not_installed_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fluvial.runtime.spark.engine", None)
    error = error_of(lambda: run(copying(), engine="spark", system=filled(), spark=object()), MissingExtraError)
    assert "pip install 'fluvial[spark]'" in str(error)


class Following:
    """Stands for `Metrics`: keeps the tables that it is given, and follows the run."""

    def __init__(self) -> None:
        self.tables: Any = None
        self.phases: set[str] = set()

    @contextmanager
    def following(self, plan: Any, settings: Any, progress: Any, tables: Any) -> Iterator[Callable[[Any], None]]:
        del plan, settings, progress
        self.tables = tables
        yield lambda told: self.phases.add(told.phase)


def test_metrics_follow_a_run_and_can_read_its_tables(tmp_path: Path) -> None:
    system, metrics = LogSystem(tmp_path, fsync=False), Following()
    write(system, {"in": [[(None, b"a", 0, ())]]})
    assert run(copying(), system=system, until="end", metrics=metrics).written == {"out": 1}
    assert [record[1] for record in contents(system, "out")] == [b"a"]
    assert "done" in metrics.phases
    for read in (lambda: metrics.tables.row("none", "k"), lambda: [*metrics.tables.rows("none", 3)]):
        with pytest.raises(FluvialError, match="none"):
            read()


def a_frame(*, streaming: bool) -> Any:
    """What says of itself that it is a DataFrame."""
    return type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe", "isStreaming": streaming})()


def planned_with(frames: DataFrames, system: MemorySystem) -> None:
    """Check and plan a run, and begin none."""
    prepared(copying(), "spark", system, None, "end", None, ContainerId(), frames=frames)


def drop(frame: Any, batch: int) -> None:
    """A function that writes nothing."""


def test_frames_are_for_the_engine_that_has_them() -> None:
    raised = error_of(lambda: run(copying(), inputs={"in": a_frame(streaming=True)}), UnsupportedError)
    assert_explains(raised, "inputs= and outputs= with engine='local'", None, "the engine that has DataFrames", "spark")


@pytest.mark.skipif(missing("spark") is not None, reason="the engine needs pyspark and Java")
def test_a_run_with_frames_alone_asks_no_system_and_another_one_does() -> None:
    alone = data_frames({"in": a_frame(streaming=True)}, {"out": drop}, None)
    planned_with(alone, MemorySystem())
    planned_with(data_frames({"in": a_frame(streaming=False)}, {"out": drop}, None), MemorySystem())
    planned_with(data_frames({"in": a_frame(streaming=True)}, None, None), MemorySystem())
    outputs = data_frames(None, {"out": drop}, None)
    planned_with(outputs, filled())
    missing_stream = error_of(lambda: planned_with(outputs, MemorySystem()), PlanError)
    assert "the stream 'in' does not exist" in str(missing_stream)
