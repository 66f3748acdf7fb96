"""The user's own lines, where there are any."""

from pathlib import Path

import pytest

from fluvial.planner.drawing.facts import location, text_at


def test_the_line_is_read_without_its_indentation(tmp_path: Path) -> None:
    file = tmp_path / "visits.py"
    file.write_text("first\n    .filter(is_page)\n")
    assert text_at(str(file), 2) == ".filter(is_page)"


@pytest.mark.parametrize("file", ["<stdin>", "no/such/file.py", "a\x00b", "", "."])
def test_a_line_that_cannot_be_read_is_empty(file: str) -> None:
    assert text_at(file, 1) == ""


def test_a_file_that_is_not_text_has_no_lines(tmp_path: Path) -> None:
    file = tmp_path / "visits.py"
    file.write_bytes(b"\xff\xfe\x00")
    assert text_at(str(file), 1) == ""


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "visits.py"
    file.write_text("before\n")
    assert text_at(str(file), 1) == "before"
    file.write_text("after it was changed\n")
    assert text_at(str(file), 1) == "after it was changed"


def test_a_location_is_shown_without_a_working_folder_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert location("/elsewhere/visits.py", 3) == "/elsewhere/visits.py:3"


def test_a_location_is_relative_to_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert location(str(tmp_path / "visits.py"), 3) == "visits.py:3"
    assert location("/elsewhere/visits.py", 3) == "/elsewhere/visits.py:3"
