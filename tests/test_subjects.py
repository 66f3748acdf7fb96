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


def commit(folder: Path, subject: str, body: str = "", *changed: str) -> None:
    """Commit all there is, or nothing; first change some files."""
    for name in changed:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(subject)
    git(folder, "add", "--all")
    git(folder, "commit", "--allow-empty", "-m", subject, "-m", body)


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


@pytest.fixture
def marked(repository: Path) -> Path:
    """A repository where the rule about the changelog has begun, with a commit before it that breaks it."""
    commit(repository, "dsl: nobody hears of it", "", "dsl/old.py")
    commit(repository, "ci: begin the rule", "", ".ci/changelog-line", "dsl/with_the_rule.py")
    return repository


def test_what_came_before_the_rule_about_the_changelog_is_not_asked_for(marked: Path) -> None:
    assert refused(marked) == ""


def test_what_was_written_beside_the_rule_about_the_changelog_is_not_asked_for(repository: Path) -> None:
    git(repository, "checkout", "-q", "-b", "side")
    commit(repository, "dsl: nobody hears of it", "", "dsl/side.py")
    git(repository, "checkout", "-q", "-")
    commit(repository, "ci: begin the rule", "", ".ci/changelog-line")
    git(repository, "merge", "-m", "Merge branch side", "side")
    assert refused(repository) == ""


@pytest.mark.parametrize("changed", ["dsl/new.py", "planner/kinds/new.py", "runtime/new.py"])
@pytest.mark.parametrize("body", ["", "So no user sees this: why", "No user sees this:", "No user sees this"])
def test_a_package_that_changes_in_silence_is_refused(marked: Path, changed: str, body: str) -> None:
    commit(marked, "local: one more file", body, changed)
    assert "without a line in CHANGELOG.md" in refused(marked)


def test_a_package_that_changes_with_a_line_passes(marked: Path) -> None:
    commit(marked, "dsl: one more file", "", "dsl/new.py", "CHANGELOG.md")
    assert refused(marked) == ""


def test_a_test_is_no_line(marked: Path) -> None:
    commit(marked, "dsl: one more file", "", "dsl/new.py", "tests/dsl/test_new.py")
    assert "without a line in CHANGELOG.md" in refused(marked)


def test_a_package_that_changes_with_a_reason_passes(marked: Path) -> None:
    commit(marked, "dsl: one more file", "Two became one.\n\nNo user sees this: comments only", "dsl/new.py")
    assert refused(marked) == ""


def test_what_is_no_package_may_change_in_silence(marked: Path) -> None:
    commit(marked, "docs: one more page", "", "docs/new.md", "benchmarks/runtime/new.py")
    assert refused(marked) == ""


@pytest.mark.parametrize("depth", [1, 2])
def test_a_commit_whose_parent_a_shallow_clone_lacks_passes(marked: Path, tmp_path: Path, depth: int) -> None:
    for number in range(2):
        commit(marked, f"dsl: file {number}", "", f"dsl/new{number}.py")
    git(tmp_path, "clone", "--quiet", "--depth", str(depth), marked.as_uri(), "clone")
    assert refused(tmp_path / "clone").count("changes a package") == depth - 1


def test_a_folder_without_history_passes(tmp_path: Path) -> None:
    assert refused(tmp_path) == ""
