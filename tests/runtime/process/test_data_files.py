"""Folders and files that hold data: their permissions and their owners."""

import os
from datetime import timedelta
from pathlib import Path

import pytest

from engines.targets import write
from faults.foreign import make_foreign
from faults.small_disks import small_disk
from fluvial.dsl import Pipeline, SystemProblem, UsageError, count, tumbling
from fluvial.planner import Settings, plan
from fluvial.runtime import export_offsets, reset, run
from fluvial.runtime.files import open_output
from fluvial.runtime.local.stores.task_stores import task_folders
from fluvial.runtime.process.data_files import check_owner, make_folder, umask, write_file
from fluvial.runtime.spark.atomic_file import write as write_beside
from fluvial.runtime.state import RocksStore
from fluvial.runtime.systems import LogSystem


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder where every user may write, as that for temporary files."""
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o1777)
    return place


def modes(place: Path) -> set[tuple[str, int]]:
    """The permissions of all folders and files there, but for what RocksDB makes within its folders."""
    found = [place, *place.rglob("*")]
    return {
        ("folder" if path.is_dir() else "file", path.stat().st_mode & 0o777)
        for path in found
        if not (path.parent / "CURRENT").exists()
    }


def counted() -> Pipeline:
    pipeline = Pipeline("counted")
    keyed = pipeline.stream("words", key=str, value=str)
    keyed.window(tumbling(timedelta(seconds=1)), count(), id="per-second").send_to("counts")
    return pipeline


@pytest.mark.parametrize(("told", "expected"), [("", (0o700, 0o600)), ("027", (0o750, 0o640)), ("0", (0o777, 0o666))])
def test_a_run_leaves_nothing_that_others_may_read_unless_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: str, expected: tuple[int, int]
) -> None:
    before = os.umask(0)
    try:
        monkeypatch.setenv("FLUVIAL_UMASK", told)
        system = LogSystem(tmp_path / "a" / "log", fsync=False)
        write(system, {"words": [[(b"a", b"tea", 0, ()), (b"a", b"tea", 5000, ())]]})
        run(counted(), system=system, settings=Settings(state_dir=str(tmp_path / "a" / "state")), until="end")
        with open_output(str(tmp_path / "a" / "out.json")) as file:
            file.write(b"{}")
    finally:
        os.umask(before)
    assert modes(tmp_path / "a") == {("folder", expected[0]), ("file", expected[1])}


def test_a_store_is_made_anew_for_its_user_alone(tmp_path: Path) -> None:
    store = RocksStore(tmp_path / "task")
    store.write([(b"prefix", b"key", b"value")])
    store.clear()
    store.close()
    assert (tmp_path / "task").stat().st_mode & 0o777 == 0o700


def test_what_exists_keeps_its_permissions(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log").chmod(0o750)
    make_folder(tmp_path / "log" / "streams")
    assert (tmp_path / "log").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("given", ["rw", "8", "07777", "-1", "7777", "777", "0477", "100"])
def test_a_mask_that_is_none(monkeypatch: pytest.MonkeyPatch, given: str) -> None:
    monkeypatch.setenv("FLUVIAL_UMASK", given)
    with pytest.raises(UsageError, match="octal digits"):
        umask()


def test_a_file_is_never_written_through_a_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "link").symlink_to(victim)
    with pytest.raises(OSError, match="link"):
        write_file(tmp_path / "link", b"other")
    assert victim.read_bytes() == b"precious"


def test_what_another_user_has_put_there_is_refused(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (shared / "log").mkdir()
    make_foreign(shared / "log", monkeypatch)
    with pytest.raises(SystemProblem, match="belongs to another user"):
        LogSystem(shared / "log").admin()
    with pytest.raises(SystemProblem, match="belongs to another user"):
        RocksStore(shared / "log" / "deep" / "task", spare=True)
    with pytest.raises(SystemProblem, match="belongs to another user"), open_output(str(shared / "log" / "out")):
        pass
    assert not list((shared / "log").iterdir())


def test_the_stores_of_another_user_are_neither_read_nor_removed(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system, settings = LogSystem(shared / "log", fsync=False), Settings(state_dir=str(shared / "state"))
    write(system, {"words": [[(b"a", b"tea", 0, ())]]})
    run(counted(), system=system, settings=settings, until="end")
    made = set(shared.rglob("*"))
    make_foreign(shared / "state", monkeypatch)
    with pytest.raises(SystemProblem, match="belongs to another user"):
        reset(counted(), system=system, settings=settings)
    with pytest.raises(SystemProblem, match="belongs to another user"):
        task_folders(plan(counted(), partitions=system.admin().streams()), system, settings, "words/0")
    assert set(shared.rglob("*")) >= made


def test_links_in_a_folder_of_all_users_are_refused(shared: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (shared / "log").symlink_to(tmp_path / "mine")
    (shared / "out").symlink_to(tmp_path / "mine" / "file")
    with pytest.raises(SystemProblem, match="is a link"):
        LogSystem(shared / "log").admin()
    with pytest.raises(SystemProblem, match="is a link"), open_output(str(shared / "out")):
        pass
    assert not list((tmp_path / "mine").iterdir())


def test_offsets_are_exported_to_no_file_that_another_user_may_have_made(shared: Path, tmp_path: Path) -> None:
    system = LogSystem(tmp_path / "log", fsync=False)
    write(system, {"words": [[(b"k", b"v", 0, ())]]})
    run(counted(), system=system, until="end")
    mine, link = shared / "offsets.json", shared / "link.json"
    export_offsets(counted(), mine, system=system)
    assert mine.stat().st_mode & 0o777 == 0o600
    link.symlink_to(tmp_path / "victim")
    with pytest.raises(SystemProblem, match="is a link"):
        export_offsets(counted(), link, system=system)
    assert not (tmp_path / "victim").exists()


def test_a_folder_that_everyone_may_write_to_is_refused(shared: Path) -> None:
    (shared / "log").mkdir()
    (shared / "log").chmod(0o777)
    with pytest.raises(SystemProblem, match="every user may write to"):
        LogSystem(shared / "log").admin()


def test_what_is_ones_own_is_taken(shared: Path, tmp_path: Path) -> None:
    (shared / "mine").mkdir()
    (tmp_path / "link").symlink_to(shared / "mine")
    for place in (shared / "mine", shared / "new" / "deep", tmp_path / "link", tmp_path / "new"):
        check_owner(place)
        make_folder(place)
        assert place.is_dir()


def test_what_lies_beside_sparks_checkpoints_is_private(tmp_path: Path) -> None:
    write_beside(tmp_path / "identity", b"name")
    write_beside(tmp_path / "identity", b"name")
    assert modes(tmp_path) == {("folder", 0o700), ("file", 0o600)}


def test_a_file_is_no_folder_to_be_made(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(NotADirectoryError, match="it is no folder"):
        make_folder(tmp_path / "state")


def test_a_file_that_does_not_fit_on_its_disk_is_named(tmp_path: Path) -> None:
    """Python's error of a write does not name the file by itself."""
    with small_disk(tmp_path / "disk", 1) as disk, pytest.raises(OSError, match=r"No space left on device: .*whole"):
        write_file(disk.folder / "whole", bytes(2 << 20))
