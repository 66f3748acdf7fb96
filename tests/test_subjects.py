"""The check of commit subjects, `.ci/subjects`, over histories made for it."""

import shutil
import subprocess
from pathlib import Path

import pytest

CHECK = Path(__file__).parents[1] / ".ci" / "subjects"
AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder."""
    subprocess.run(("git", *AUTHOR, *arguments), cwd=folder, check=True, capture_output=True)


def commit(folder: Path, subject: str) -> None:
    """Commit all there is, or nothing."""
    git(folder, "add", "--all")
    git(folder, "commit", "--allow-empty", "-m", subject)


def refused(folder: Path) -> str:
    """What the check of a repository writes; empty if it passes."""
    done = subprocess.run((CHECK,), cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode == 1) == bool(done.stderr)
    return done.stderr


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with an old commit of another form, and the commit that adds the check."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    commit(folder, "Whatever came before")
    (folder / ".ci").mkdir()
    shutil.copy(CHECK, folder / ".ci" / "subjects")
    commit(folder, "Bring the check")
    return folder


def test_what_came_before_the_check_is_not_looked_at(repository: Path) -> None:
    assert refused(repository) == ""


@pytest.mark.parametrize(
    "subject", ["local: commit a task as one value", "tests, ci: split a lane", "log: " + "ä" * 85]
)
def test_a_subject_that_names_its_part_passes(repository: Path, subject: str) -> None:
    commit(repository, subject)
    assert refused(repository) == ""


@pytest.mark.parametrize(
    "subject", ["Commit a task as one value", "local:commit", "Local: commit", "local: " + "a" * 84]
)
def test_another_subject_is_refused_and_shown(repository: Path, subject: str) -> None:
    commit(repository, subject)
    assert subject in refused(repository)


def test_the_subject_of_a_merge_is_not_looked_at(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "side")
    commit(repository, "local: one side")
    git(repository, "checkout", "-q", "-")
    commit(repository, "local: the other side")
    git(repository, "merge", "-m", "Merge branch side", "side")
    assert refused(repository) == ""


def test_the_oldest_commit_of_a_shallow_clone_is_not_looked_at(repository: Path, tmp_path: Path) -> None:
    commit(repository, "Squashed by a machine")
    git(tmp_path, "clone", "--quiet", "--depth", "1", repository.as_uri(), "clone")
    assert refused(tmp_path / "clone") == ""


def test_a_folder_without_history_passes(tmp_path: Path) -> None:
    assert refused(tmp_path) == ""
