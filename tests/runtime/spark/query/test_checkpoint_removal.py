"""The checkpoints of a pipeline's queries are removed all or not at all, whenever the reset is cut off, and nothing
else is."""

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from engines.targets import write
from fluvial.dsl import Pipeline
from fluvial.planner import Plan, Settings, plan
from fluvial.runtime import reset, run
from fluvial.runtime.reset_step import ResetStep
from fluvial.runtime.spark.connectors.kafka import KafkaConnection
from fluvial.runtime.spark.connectors.log import LogConnection
from fluvial.runtime.spark.query.checkpoint_record import begin_removal, query_checkpoints
from fluvial.runtime.spark.query.checkpoint_removal import finish_removals, removals
from fluvial.runtime.state.pipeline_folder import has_begun_queries
from fluvial.runtime.systems import KafkaSystem, LogSystem

GROUP = "p@1f"
FILES = ("query", "identity", "starts", "spark/metadata", "spark/offsets/0", "spark/commits/0", "spark/state/0/x")


class Killed(BaseException):
    """What a kill is to those who cannot catch it."""


@pytest.fixture
def made() -> Plan:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    return plan(pipeline, partitions={"in": 1})


def query(root: Path, stage: str = "in") -> Path:
    """The folder of a query that has run."""
    folder = root / stage / "0123456789ab"
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"sources":{"in":1},"stages":{"in":0},"buckets":8}' if name == "query" else "1f")
    return folder


def log(folder: Path) -> LogSystem:
    """A log that knows a batch of the query."""
    system = LogSystem(folder, fsync=False)
    with closing(system.producer()) as producer:
        producer.begin().commit(GROUP, {"batch": b"0"})
    return system


def killed_at(call: int, monkeypatch: pytest.MonkeyPatch, work: Callable[[], Any]) -> bool:
    """Whether the work was killed before such a call that opens, renames or removes; else it had fewer."""
    calls = iter(range(call + 1))

    def mortal(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if next(calls, None) is None:
                raise Killed
            return function(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        for name in ("open", "rename", "unlink", "rmdir"):
            patched.setattr(os, name, mortal(getattr(os, name)))
        try:
            work()
        except Killed:
            return True
    return False


@pytest.mark.slow
def test_a_reset_that_is_cut_off_leaves_all_checkpoints_or_none(
    made: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two queries: one that went on beside one that began anew would give half of the outputs again."""
    for call in range(200):
        root, system = tmp_path / str(call) / "p", log(tmp_path / str(call) / "log")
        folders, connection = [query(root), query(root, "more")], LogConnection(system)
        steps = [*removals(made, connection, root)]
        assert [step.name for step in steps] == [str(folder) for folder in folders]
        assert [found.folder for found in query_checkpoints(root)] == folders  # nothing is done by telling

        def work(steps: list[ResetStep] = steps) -> None:
            for step in steps:
                step.remove()

        killed = killed_at(call, monkeypatch, work)
        whole = all((folder / name).exists() for folder in folders for name in FILES)
        kept = [found.folder for found in query_checkpoints(root)]
        assert kept == [] or (whole and kept == folders)
        assert has_begun_queries(root) == bool(kept)
        assert not kept or system.admin().checkpoints(GROUP) == {"batch": b"0"}
        finish_removals(made, connection, root)  # the next run does so
        assert [found.folder for found in query_checkpoints(root)] == kept
        assert kept or {*root.rglob("*")} == {folder.parent for folder in folders}
        assert kept or system.admin().checkpoints(GROUP) == {}
        assert query(root) in [found.folder for found in query_checkpoints(root)]  # one that begins is found
        if not killed:
            assert call > 20
            return
    pytest.fail("the reset does not end")


def test_what_a_reset_has_left_is_removed_by_the_next(
    made: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, connection = query(tmp_path / "p"), LogConnection(log(tmp_path / "log"))
    (step,) = removals(made, connection, tmp_path / "p")
    assert killed_at(2, monkeypatch, step.remove)
    (left,) = removals(made, connection, tmp_path / "p")
    assert left.name.startswith(f"{folder}.removed-")
    for removal in (left, step):  # that a step is taken twice does no harm
        removal.remove()
    assert [*removals(made, connection, tmp_path / "p")] == []


def test_on_kafka_no_topic_is_asked_for(made: Plan, tmp_path: Path) -> None:
    """All that is known of a query lies in its folder; no broker is there to be asked."""
    folder = query(tmp_path / "p")
    for step in removals(made, KafkaConnection(KafkaSystem("127.0.0.1:9")), tmp_path / "p"):
        step.remove()
    assert not folder.exists()


def test_each_engine_removes_its_own_from_a_folder_of_both(made: Plan, tmp_path: Path) -> None:
    system, settings = LogSystem(tmp_path / "log", fsync=False), Settings(state_dir=str(tmp_path / "state"))
    pipeline = Pipeline("p")
    table = pipeline.table("rows", key=str, value=str)
    pipeline.stream("in", key=str, value=str).join(table, max, id="join").send_to("out")
    write(system, {"in": [[(b"k", b"v", 0, ())]], "rows": [[(b"k", b"v", 0, ())]]})
    run(pipeline, system=system, settings=settings, until="end")
    folder, root = query(tmp_path / "state" / "p"), tmp_path / "state" / "p"
    (store,) = set(root.iterdir()) - {folder.parent}
    begin_removal(root)  # what a reset of Spark's leaves that is cut off is its own too
    steps = reset(pipeline, system=system, settings=settings)
    assert [step.name for step in steps if step.kind == "store"] == [str(store)]
    assert (store.exists(), folder.exists()) == (False, True)

    of_a_container = root / "container-0" / "in-0"
    of_a_container.mkdir(parents=True)
    (of_a_container / "CURRENT").touch()
    assert [step.name for step in removals(made, LogConnection(system), root)] == [str(folder)]


@pytest.mark.parametrize("file", ["query", "identity", "starts"])
def test_a_damaged_checkpoint_is_removed_as_the_error_of_a_run_says(tmp_path: Path, file: str) -> None:
    pipeline, system = Pipeline("p"), LogSystem(tmp_path, fsync=False)
    pipeline.stream("in", value=str).send_to("out")
    write(system, {"in": [[]]})
    damaged = query(tmp_path / "spark" / "p")
    (damaged / file).write_bytes(b"\xff{")
    assert [step.kind for step in reset(pipeline, engine="spark", system=system)] == ["query"]
    assert not damaged.exists()
