"""Commits as values, where a system publishes prepared transactions: what is published, and what the store has then."""

from pathlib import Path

import pytest

from engines.targets import contents
from engines.watched import WatchedLog, WatchedStore
from fluvial.dsl import Pipeline
from fluvial.dsl.message import Record
from fluvial.planner import plan
from fluvial.runtime.local.background_work import run_steps
from fluvial.runtime.local.checkpoints import checkpoint as checkpoints
from fluvial.runtime.local.checkpoints.checkpoint import Checkpoint
from fluvial.runtime.local.commit.contract import TaskCommit
from fluvial.runtime.local.commit.two_phase_commit import TwoPhaseCommit
from fluvial.runtime.local.stores.alignment import CommittedLog
from fluvial.runtime.local.stores.store_keys import CHECKPOINT, META, PENDING
from fluvial.runtime.local.task_setup import TaskSetup
from fluvial.runtime.state import MemoryStore, TaskStore
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.contract import PublishingSystem

RECORD: Record = (b"k", b"1", 0, ())
CHANGE = (b"n\0", b"k", b"1")


def commits_to(system: PublishingSystem) -> TwoPhaseCommit:
    pipeline = Pipeline("p")
    pipeline.stream("in", value=str).send_to("out")
    return TwoPhaseCommit(CommittedLog(plan(pipeline, partitions={"in": 1}), system, system.producer(), "reset"))


def commit_of(commits: TwoPhaseCommit, number: int, store: TaskStore, *changelogs: str) -> TaskCommit:
    """One record, one change of state, and one more message read, of a task of this number."""
    setup = TaskSetup(f"in/{number}", "in", number, store, dict.fromkeys(changelogs, ""), {"in": ("in", number)})
    staged_outputs = commits.staged_outputs()
    staged_outputs.append("out", 0, [RECORD])
    return TaskCommit(setup, Checkpoint(offsets={"in": number}, number=1), [CHANGE], staged_outputs)


def test_a_commit_publishes_outputs_and_checkpoint_and_writes_the_state() -> None:
    system, store = MemorySystem(), MemoryStore()
    system.admin().create("out", 1)
    commits = commits_to(system)
    wanted = commit_of(commits, 0, store, "n")
    (result,) = run_steps(commits.commit([wanted]))
    assert result.checkpoint == wanted.checkpoint
    assert result.staged_outputs is not wanted.staged_outputs
    assert contents(system, "out") == [RECORD]
    data = system.admin().checkpoints("p")["in/0"]
    assert checkpoints.decode(data, "in/0") == wanted.checkpoint
    assert (store.get(b"n\0", b"k"), store.get(META, CHECKPOINT)) == (b"1", data)
    assert store.get(META, PENDING) is not None


def test_of_a_task_that_keeps_no_state_nothing_is_written_to_a_store() -> None:
    system, store = MemorySystem(), MemoryStore()
    system.admin().create("out", 1)
    commits = commits_to(system)
    run_steps(commits.commit([commit_of(commits, 0, store)]))
    assert [*store.scan(b"")] == []


def test_results_come_in_the_order_of_the_commits() -> None:
    system = MemorySystem()
    system.admin().create("out", 1)
    commits = commits_to(system)
    results = run_steps(commits.commit([commit_of(commits, number, MemoryStore(), "n") for number in (2, 0, 1)]))
    assert [result.checkpoint.offsets["in"] for result in results] == [2, 0, 1]
    assert len(contents(system, "out")) == 3


@pytest.mark.parametrize("fsync", [True, False])
def test_a_store_is_as_safe_as_its_log_before_a_commit_is_published(tmp_path: Path, fsync: bool) -> None:
    calls: list[str] = []
    log = WatchedLog(tmp_path, calls.append, fsync=fsync)
    log.admin().create("out", 1)
    commits = commits_to(log)
    run_steps(commits.commit([commit_of(commits, 0, WatchedStore(MemoryStore(), calls.append), "n")]))
    assert calls == (["write", "sync", "publish"] if fsync else ["write", "publish"])
