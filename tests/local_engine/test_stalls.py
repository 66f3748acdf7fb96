"""A run that waits for what will not come says so."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from engines.several import at_each_turn
from engines.silent import EndlessMemory, SilentLog, SilentMemory
from engines.targets import write
from fluvial.dsl import NoProgressError, Pipeline
from fluvial.planner import Settings
from fluvial.runtime import Progress, Report, run
from fluvial.runtime.report import OnProgress
from fluvial.runtime.systems import LogSystem


def test_an_intermediate_stream_that_never_ends_is_a_stall() -> None:
    pipeline, system = Pipeline("p"), EndlessMemory()
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out")
    write(system, {"in": [[(None, b"a", 0, ())]]})
    impatient = Settings(stall_timeout=timedelta(milliseconds=20))
    with pytest.raises(
        NoProgressError, match=r"task p-by/0 waits for the end of p-by\n  at .*test_stalls.py:\d+\n  expected: progress"
    ):
        run(pipeline, system=system, until="end", settings=impatient)


def test_messages_that_never_come_are_a_stall_of_a_run_without_end() -> None:
    pipeline, system = Pipeline("p"), SilentMemory()
    pipeline.stream("in", value=str).send_to("out")
    write(system, {"in": [[(None, b"a", 0, ())]]})
    impatient = Settings(stall_timeout=timedelta(milliseconds=20))
    with pytest.raises(
        NoProgressError, match=r"task in/0 waits for messages of in\n  at .*test_stalls.py:\d+\n  expected: progress"
    ):
        run(pipeline, system=system, settings=impatient)


def test_what_a_container_that_has_started_is_to_end_is_waited_for(tmp_path: Path) -> None:
    """Container 1 has nothing to do before container 0, which goes on long after the patience of both is over."""
    pipeline, log = Pipeline("p"), LogSystem(tmp_path, fsync=False)
    pipeline.stream("in", value=str).partition_by(str, id="by", key_type=str).send_to("out")
    write(log, {"in": [[(None, b"a", 0, ())]]})
    impatient = Settings(stall_timeout=timedelta(milliseconds=1))
    started, waited = Event(), Event()

    def holds(_: Progress) -> None:
        started.set()
        assert waited.wait(60)

    def waits(progress: Progress) -> None:
        if progress.seconds > 0.1:
            waited.set()

    def container(number: int, progress: OnProgress) -> Report:
        words: dict[str, Any] = {"system": log, "until": "end", "settings": impatient, "containers": 2}
        return run(pipeline, progress=progress, container_id=number, **words)

    with at_each_turn(), ThreadPoolExecutor(2) as pool:
        first = pool.submit(container, 0, holds)
        assert started.wait(60)
        second = pool.submit(container, 1, waits)
        assert first.result().written == {"p-by": 1}
        assert second.result().written == {"out": 1}


def test_a_container_stalls_by_itself_where_its_own_source_gives_nothing(tmp_path: Path) -> None:
    pipeline, log = Pipeline("p"), LogSystem(tmp_path, fsync=False)
    pipeline.stream("in", value=str).send_to("out")
    write(log, {"in": [[(None, b"a", 0, ())]] * 2})
    words: dict[str, Any] = {"until": "end", "containers": 2}
    assert run(pipeline, system=log, container_id=0, **words).written == {"out": 1}
    impatient = Settings(stall_timeout=timedelta(milliseconds=20))
    with pytest.raises(NoProgressError, match="task in/1 waits for the end of in"):
        run(pipeline, system=SilentLog(tmp_path, fsync=False), settings=impatient, container_id=1, **words)
