"""A store and its log that are not at the same commit are gone on with by nobody."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest
from msgspec.structs import replace

from engines.sending import Killed
from engines.targets import contents, write
from engines.watched import WatchedLog
from explained import assert_explains, error_of
from fluvial.dsl import Pipeline, SystemProblem
from fluvial.planner import Settings
from fluvial.runtime import reset, run
from fluvial.runtime.cli.commands.check import check
from fluvial.runtime.local.checkpoints import checkpoint as checkpoints
from fluvial.runtime.local.stores.store_keys import CHECKPOINT, IDENTITY, META, PENDING
from fluvial.runtime.state import RocksStore
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.log import accept_loss
from fluvial.runtime.systems.log.journal import Journal
from generators.counters import Counter


def counting() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.stream("in", key=str, value=str).process(Counter(), id="n").send_to("out", value=int)
    return pipeline


def run_more(log: LogSystem, settings: Settings | None = None) -> list[int]:
    """Run on one more message; all that was counted so far."""
    write(log, {"in": [[(b"k", b"x", 0, ())]]})
    run(counting(), system=log, until="end", settings=settings)
    return outputs(log)


def outputs(log: LogSystem) -> list[int]:
    return [int(record[1] or b"") for record in contents(log, "out")] if "out" in log.admin().streams() else []


@pytest.fixture
def log(tmp_path: Path) -> LogSystem:
    return LogSystem(tmp_path / "log", fsync=False)


@pytest.fixture
def folder(log: LogSystem) -> Path:
    """Of the store."""
    return log.directory / "state" / "p" / "in-0"


def die_before_publishing(log: LogSystem) -> None:
    """Run on one more message, and die when its commit is in the store alone."""

    def die(_: str) -> None:
        raise Killed

    with pytest.raises(Killed):
        run_more(WatchedLog(log.directory, die))


def refused(log: LogSystem, wrong: str, remedy: str) -> None:
    before = outputs(log)
    error = error_of(lambda: run_more(log), SystemProblem)
    assert_explains(error, wrong, counting, "", remedy, below=1)
    assert outputs(log) == before


def test_a_store_that_is_older_than_its_log_is_refused(log: LogSystem, folder: Path, tmp_path: Path) -> None:
    run_more(log)
    shutil.copytree(folder, tmp_path / "copy")
    run_more(log)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    refused(log, "the store of task in/0 is older than its checkpoint", "--state n")


def test_the_end_of_a_stores_own_log_that_a_power_cut_took_is_noticed(
    log: LogSystem, folder: Path, tmp_path: Path
) -> None:
    def cut_off(_: str) -> None:
        shutil.copytree(folder, tmp_path / "copy")  # closing it in order would leave nothing to be cut

    run_more(log)
    run_more(WatchedLog(log.directory, cut_off))
    shutil.rmtree(folder)
    (tmp_path / "copy").rename(folder)
    (newest,) = [file for file in folder.glob("*.log") if file.stat().st_size]
    with newest.open("r+b") as file:
        file.truncate(newest.stat().st_size * 2 // 3)
    refused(log, "is older than its checkpoint", "--state n")


def test_a_log_that_is_older_than_its_store_is_refused(log: LogSystem, folder: Path, tmp_path: Path) -> None:
    run_more(log)
    shutil.copytree(log.directory, tmp_path / "copy")
    for _ in range(3):
        run_more(log)
    shutil.copytree(folder, tmp_path / "copy" / "state" / "p" / "in-0", dirs_exist_ok=True)
    shutil.rmtree(log.directory)
    (tmp_path / "copy").rename(log.directory)
    refused(log, "has lost a commit that the store of task in/0 has", "--state n")


def test_the_state_of_a_log_that_was_made_anew_is_refused(log: LogSystem, tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path / "state"))
    run_more(log, settings)
    shutil.rmtree(log.directory)
    for _ in range(2):  # whether the new log has been used or not
        error = error_of(lambda: run_more(log, settings), SystemProblem)
        assert "was written with another log than" in str(error)
    assert outputs(log) == []


def test_a_reset_that_did_not_find_the_store_is_noticed(log: LogSystem, tmp_path: Path) -> None:
    settings = Settings(state_dir=str(tmp_path / "state"))
    run_more(log, settings)
    reset(counting(), system=log)
    error = error_of(lambda: run_more(log, settings), SystemProblem)
    assert_explains(error, "has no checkpoint of that task", counting, "kept together", "--all", below=1)
    reset(counting(), system=log, settings=settings)
    assert run_more(log, settings) == [1, 1, 2, 3]


def test_what_was_refused_goes_on_once_its_state_is_reset(log: LogSystem, folder: Path, tmp_path: Path) -> None:
    run_more(log)
    shutil.copytree(folder, tmp_path / "copy")
    run_more(log)
    shutil.rmtree(folder)
    shutil.copytree(tmp_path / "copy", folder)
    reset(counting(), states=["n"], system=log)
    assert run_more(log) == [1, 2, 1]


@pytest.mark.parametrize("before", ["first", "second"])
def test_a_commit_that_a_crash_left_in_the_store_alone_is_published(log: LogSystem, before: str) -> None:
    if before == "second":
        run_more(log)
    known = outputs(log)
    die_before_publishing(log)
    assert outputs(log) == known
    assert run_more(log) == [*range(1, len(known) + 3)]


def test_a_store_without_numbers_is_adopted(log: LogSystem, folder: Path) -> None:
    run_more(log)
    data = checkpoints.encode(replace(checkpoints.decode(log.admin().checkpoints("p")["in/0"], "in/0"), number=0))
    with closing(log.producer()) as producer:
        producer.begin().commit("p", {"in/0": data})
    with closing(RocksStore(folder)) as store:
        store.write([(META, CHECKPOINT, data), (META, IDENTITY, None)])
    assert run_more(log) == [1, 2]
    with closing(RocksStore(folder)) as store:
        assert store.get(META, IDENTITY) == log.producer().identity.encode()


def test_the_token_of_a_commit_is_kept_with_it(log: LogSystem, folder: Path) -> None:
    run_more(log)
    with closing(RocksStore(folder)) as store:
        assert store.get(META, PENDING)


def cut(log: LogSystem, commits: int) -> None:
    """Let the log lose its last commits, and be opened nevertheless."""
    journal = log.directory / "journal"
    for _ in range(commits):
        run_more(log)
    size = journal.stat().st_size
    die_before_publishing(log)
    with journal.open("r+b") as file:
        file.truncate(size - 1)
    accept_loss(log.directory)


@pytest.mark.parametrize("commits", [1, 3])
def test_a_loss_that_was_accepted_is_gone_on_with_once_state_is_reset(log: LogSystem, commits: int) -> None:
    run_more(log)
    cut(log, commits)
    refused(log, "has lost a commit that the store of task in/0 has", "--state n")
    known = outputs(log)
    reset(counting(), states=["n"], system=log)
    assert run_more(log)[len(known) :][0] == 1


def test_what_cannot_be_published_any_more_is_no_reason_against_a_reset(log: LogSystem) -> None:
    run_more(log)
    die_before_publishing(log)
    for file in (log.directory / "streams" / "out" / "0").glob("*.seg"):
        if not contents_of(log, file):
            file.unlink()
    refused(log, "its outputs cannot be published", "--state n")
    reset(counting(), states=["n"], system=log)
    assert run_more(log) == [1, 1, 2, 3]


def contents_of(log: LogSystem, segment: Path) -> bool:
    """Whether anything of a segment is published."""
    index = Journal(log.directory).refresh()
    return segment.name in index.streams["out"][0].names


def test_a_store_that_is_missing_is_reported_before_anything_starts(log: LogSystem, folder: Path) -> None:
    run_more(log)
    shutil.rmtree(folder)
    pipeline = counting()
    pipeline.stream("in-2", value=str).send_to("out-2")
    write(log, {"in-2": [[(b"k", b"x", 0, ())]]})
    error_of(lambda: run(pipeline, system=log, until="end"), SystemProblem)
    assert log.admin().partitions("out-2") is None
    found = [one for one in check(counting(), "local", log) if one.text.startswith("state:")]
    assert ["the state of task in/0 is gone" in one.text for one in found] == [True]
    assert found[0].code == 4


def test_a_store_that_the_log_does_not_know_is_reported_by_check(log: LogSystem) -> None:
    run_more(log)
    run_more(log)
    with closing(log.producer()) as producer:
        producer.begin().commit("p", {"in/0": b""})
    found = [one.text for one in check(counting(), "local", log) if one.code]
    assert ["has no checkpoint of that task" in text for text in found] == [True]
