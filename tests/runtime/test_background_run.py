"""Runs in the background, and the handles on them, on both engines."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from engines.targets import append, contents, write
from explained import assert_explains, error_of
from fluvial.dsl import MessageError, Pipeline, PlanError, UsageError
from fluvial.planner import Settings
from fluvial.runtime import Progress, RunHandle, start
from fluvial.runtime.launch import EngineName
from fluvial.runtime.systems import LogSystem, MemorySystem
from waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG = timedelta(minutes=2)
SOON = Settings(commit_interval=timedelta(milliseconds=50), spark_buckets=2)


def shouting(change: Callable[[str], str] = str.upper) -> Pipeline:
    pipeline = Pipeline("shout")
    pipeline.stream("words", value=str).map(change).send_to("loud")
    return pipeline


@pytest.fixture(params=["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def begin(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., RunHandle]:
    """Starts a pipeline on each engine, on a log with one word."""
    engine: EngineName = request.param
    session: SparkSession | None = request.getfixturevalue("spark") if engine == "spark" else None
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"words": [[(None, b"tea", 1, ())]]})

    def begun(pipeline: Pipeline, **options: Any) -> RunHandle:
        return start(pipeline, engine=engine, system=system, settings=SOON, spark=session, **options)

    return begun


def loud(begun: RunHandle, folder: Path) -> list[bytes | None]:
    system = LogSystem(folder / "log", fsync=False)
    if begun.error is not None or "loud" not in system.admin().streams():
        return []
    return [record[1] for record in contents(system, "loud")]


def test_a_run_goes_on_until_it_is_stopped(begin: Callable[..., RunHandle], tmp_path: Path) -> None:
    shown: list[Progress] = []
    with begin(shouting(), progress=shown.append) as handle:
        wait_until(lambda: loud(handle, tmp_path) == [b'"TEA"'], "the first word", 60)
        append(LogSystem(tmp_path / "log", fsync=False), "words", 0, [(None, b"milk", 1, ())])
        wait_until(lambda: loud(handle, tmp_path) == [b'"TEA"', b'"MILK"'], "the second word", 60)
        wait_until(lambda: handle.progress is not None, "progress", 60)
        assert handle.running
        assert handle.wait(timedelta(milliseconds=1)) is None
        assert repr(handle).startswith("<run of shout: running, ")
        assert bool(handle.queries) == (shown[0].engine == "spark")
    assert not handle.running
    assert handle.error is None
    assert repr(handle) == "<run of shout: ended>"
    report = handle.stop()  # once more changes nothing
    assert report is not None
    assert report.read == {"words": 2}


def refuse(_: str) -> str:
    raise ValueError("no")


def test_the_error_of_a_run_is_raised_where_it_is_waited_for(begin: Callable[..., RunHandle]) -> None:
    handle = begin(shouting(refuse), until="end")
    with pytest.raises(MessageError, match="ValueError: no"):
        handle.wait(LONG)
    assert isinstance(handle.error, MessageError)
    assert repr(handle).startswith("<run of shout: failed: map(refuse) failed")


def test_a_run_to_the_end_ends(begin: Callable[..., RunHandle], tmp_path: Path) -> None:
    handle = begin(shouting(), until="end")
    report = handle.wait(LONG)
    assert report is not None
    assert report.written == {"loud": 1}
    assert loud(handle, tmp_path) == [b'"TEA"']


def test_the_run_of_a_block_that_fails_is_stopped() -> None:
    streams = MemorySystem()
    streams.admin().create("words", 1)
    with pytest.raises(RuntimeError, match="of the block"), start(shouting(), system=streams) as handle:
        raise RuntimeError("of the block")
    assert not handle.running


def test_wrong_arguments_are_refused_at_once() -> None:
    calls: Any = start
    assert "progress=3" in str(error_of(lambda: calls(shouting(), progress=3), UsageError))
    assert "until='now'" in str(error_of(lambda: calls(shouting(), until="now"), UsageError))
    assert "the stream 'words' does not exist" in str(error_of(lambda: calls(shouting(), system="memory:"), PlanError))


def test_a_timeout_that_is_no_timedelta_is_refused_and_stops_nothing() -> None:
    streams = MemorySystem()
    streams.admin().create("words", 1)
    with start(shouting(), system=streams) as handle:
        calls: Any = handle
        for call in (calls.wait, calls.stop):
            error = error_of(partial(call, 5), UsageError)
            assert_explains(error, "timeout=5", None, "a timedelta, or None", "timedelta(seconds=5)")
        assert handle.wait(timedelta(milliseconds=300)) is None  # it goes on
