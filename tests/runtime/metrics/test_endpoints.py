"""Notes of where metrics are served."""

import json
import os
from pathlib import Path

import pytest

from faults.foreign import make_foreign
from fluvial.runtime.metrics.endpoints import MetricsEndpoint, announced, endpoints, endpoints_folder


def test_a_note_is_there_meanwhile(tmp_path: Path) -> None:
    with announced("visits", "http://127.0.0.1:9100", tmp_path / "notes"):
        assert endpoints(tmp_path / "notes") == [MetricsEndpoint("visits", "http://127.0.0.1:9100", os.getpid())]
        assert (tmp_path / "notes").stat().st_mode & 0o777 == 0o700
    assert endpoints(tmp_path / "notes") == []


def test_the_note_of_a_process_that_is_gone_is_removed(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    tmp_path.chmod(0o700)
    file = tmp_path / f"visits.{child}.json"
    file.write_text(json.dumps({"pipeline": "visits", "url": "http://127.0.0.1:1", "process": child}))
    assert endpoints(tmp_path) == []
    assert not file.exists()


def test_what_is_no_note_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("what is this?")
    assert endpoints(tmp_path) == []
    assert endpoints(tmp_path / "nothing") == []


def test_where_no_note_can_be_left_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with announced("visits", "http://127.0.0.1:9100", tmp_path / "file"):
        pass
    assert endpoints(tmp_path / "file") == []


def test_notes_lie_where_only_their_user_can_write(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert endpoints_folder() == tmp_path / "fluvial"
    make_foreign(tmp_path, monkeypatch)
    assert endpoints_folder().name == f"fluvial-{os.geteuid()}"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert endpoints_folder().name == f"fluvial-{os.geteuid()}"


def left(folder: Path, caplog: pytest.LogCaptureFixture) -> str:
    """What is said where a note is to be left."""
    with announced("visits", "http://127.0.0.1:9100", folder):
        assert endpoints(folder) == []
    return caplog.text


def test_the_folder_of_another_user_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Who made it may have put links there under each name that a note can have."""
    folder, victim = tmp_path / "notes", tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder.mkdir(mode=0o700)
    (folder / f"visits.{os.getpid()}.json").symlink_to(victim)
    make_foreign(folder, monkeypatch)
    assert "belongs to another user" in left(folder, caplog)
    assert victim.read_bytes() == b"precious"


@pytest.mark.parametrize("mode", [0o770, 0o705, 0o720])
def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes").chmod(mode)
    assert f"its mode is {mode:o}, not 700" in left(tmp_path / "notes", caplog)


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "mine").mkdir(mode=0o700)
    (tmp_path / "notes").symlink_to(tmp_path / "mine")
    assert "no file can be written" in left(tmp_path / "notes", caplog)
    assert not list((tmp_path / "mine").iterdir())


def test_a_link_in_place_of_a_note_is_replaced_and_never_followed(tmp_path: Path) -> None:
    folder, victim = tmp_path / "notes", tmp_path / "victim"
    victim.write_bytes(b"precious")
    folder.mkdir(mode=0o700)
    (folder / f"visits.{os.getpid()}.json").symlink_to(victim)
    with announced("visits", "http://127.0.0.1:9100", folder):
        assert [note.pipeline for note in endpoints(folder)] == ["visits"]
    assert victim.read_bytes() == b"precious"
