"""Notes of where metrics are served."""

import json
import os
from pathlib import Path

import pytest

from fluvial.runtime.metrics.notes import Note, noted, notes, notes_folder


def test_a_note_is_there_meanwhile(tmp_path: Path) -> None:
    with noted("visits", "http://127.0.0.1:9100", tmp_path / "notes"):
        assert notes(tmp_path / "notes") == [Note("visits", "http://127.0.0.1:9100", os.getpid())]
        assert (tmp_path / "notes").stat().st_mode & 0o777 == 0o700
    assert notes(tmp_path / "notes") == []


def test_the_note_of_a_process_that_is_gone_is_removed(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    file = tmp_path / f"visits.{child}.json"
    file.write_text(json.dumps({"pipeline": "visits", "url": "http://127.0.0.1:1", "process": child}))
    assert notes(tmp_path) == []
    assert not file.exists()


def test_what_is_no_note_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("what is this?")
    assert notes(tmp_path) == []
    assert notes(tmp_path / "nothing") == []


def test_where_no_note_can_be_left_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with noted("visits", "http://127.0.0.1:9100", tmp_path / "file"):
        pass
    assert notes(tmp_path / "file") == []


def test_notes_lie_where_only_their_user_can_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert notes_folder() == Path("/run/user/7/fluvial")
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert notes_folder().name == f"fluvial-{os.getuid()}"
