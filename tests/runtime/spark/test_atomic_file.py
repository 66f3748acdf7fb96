"""Folders of checkpoints that the system refuses: the error names the file and says what to do."""

import os
from errno import EACCES, ENOSPC
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from explained import assert_explains, error_of
from fluvial.dsl import SystemProblem
from fluvial.runtime.spark.atomic_file import refusals_explained


def raising(number: int, file: Path | None, folder: Path) -> None:
    with refusals_explained(folder):
        raise OSError(number, os.strerror(number), *([] if file is None else [str(file)]))


def test_a_folder_of_another_user_is_reported_with_the_remedy(tmp_path: Path) -> None:
    file = tmp_path / "shop" / "query"
    error = error_of(lambda: raising(EACCES, file, tmp_path), SystemProblem)
    wrong = f"Spark's checkpoints in {tmp_path} cannot be used: Permission denied: {file}"
    expected = "a folder that this user may read and write to"
    assert_explains(error, wrong, None, expected, "set state_dir to another folder")


def test_a_relative_folder_is_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemProblem, match="Permission denied"):
        raising(EACCES, Path("state", "shop"), Path("state"))


@pytest.mark.parametrize(
    ("number", "file"), [(ENOSPC, "state/shop"), (EACCES, "elsewhere"), (EACCES, None)], ids=["full", "other", "none"]
)
def test_other_errors_pass_as_they_are(number: int, file: str | None, tmp_path: Path) -> None:
    with pytest.raises(OSError, match=os.strerror(number)):
        raising(number, None if file is None else tmp_path / file, tmp_path / "state")
