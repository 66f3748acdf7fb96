"""An engine that begins where the other one has gone on says so, for all outputs come once more."""

from pathlib import Path

import pytest

from engines.targets import write
from fluvial.dsl import Pipeline
from fluvial.planner import Settings, plan
from fluvial.runtime import run
from fluvial.runtime.preflight.other_engine import other_engine_warning
from fluvial.runtime.state.pipeline_folder import queries_folder
from fluvial.runtime.systems import LogSystem, MemorySystem
from fluvial.runtime.systems.contract import System


def copying() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    return pipeline


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    made = LogSystem(tmp_path / "log", fsync=False)
    write(made, {"in": [[(None, b"a", 0, ())]]})
    return made


def read_on_spark(system: System, settings: Settings, *, batches: int = 1) -> None:
    """Leave what a query leaves that has planned so many batches."""
    folder = queries_folder(system, settings)
    assert folder is not None
    offsets = folder / "p" / "in" / "0123456789ab" / "spark" / "offsets"
    offsets.mkdir(parents=True)
    for number in range(batches):
        (offsets / str(number)).touch()


def told(system: System, settings: Settings, engine: str) -> str:
    found = other_engine_warning(plan(copying(), partitions={"in": 1}), system, settings, engine)
    return "" if found is None else f"{found.wrong}; {found.remedy}"


@pytest.mark.parametrize("apart", [False, True])
def test_a_local_run_after_one_on_spark_warns(log: LogSystem, tmp_path: Path, apart: bool) -> None:
    settings = Settings(state_dir=str(tmp_path / "state")) if apart else Settings()
    read_on_spark(log, settings)
    warning = run(copying(), system=log, settings=settings, until="end").warnings["engine"]
    assert warning.startswith("the local engine has read nothing of pipeline 'p' on log:")
    assert "and Spark has: each engine continues from its own checkpoints" in warning
    assert "test_other_engine.py --engine spark" in warning
    assert not run(copying(), system=log, settings=settings, until="end").warnings  # it goes on from its own by now


def test_spark_warns_of_a_local_run(log: LogSystem) -> None:
    assert told(log, Settings(), "spark") == ""
    run(copying(), system=log, until="end")
    assert told(log, Settings(), "spark").startswith("Spark has read nothing of pipeline 'p' on log:")
    read_on_spark(log, Settings())
    assert told(log, Settings(), "spark") == told(log, Settings(), "local") == ""


def test_a_query_that_has_read_nothing_is_no_matter(log: LogSystem) -> None:
    read_on_spark(log, Settings(), batches=0)
    assert told(log, Settings(), "local") == ""


def test_spark_cannot_have_read_from_memory(tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path))
    read_on_spark(LogSystem(tmp_path / "log", fsync=False), settings)
    assert told(MemorySystem(), settings, "local") == ""
