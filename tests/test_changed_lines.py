"""The check of changed lines, `make changed-lines`, over repositories made for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from changed_lines import SINCE, chosen_tests, earlier

SUPPORT = Path(__file__).parent / "support"
AUTHOR = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
OPTIONS = "def pytest_addoption(parser):\n    parser.addoption('--quick', action='store_true')\n"
SETTINGS = """
[tool.pytest.ini_options]
pythonpath = ["."]
addopts = ["--import-mode=importlib"]
markers = ["spark", "kafka", "slow"]
[tool.coverage.run]
branch = true
source = ["dsl"]
"""
CODE = "def double(number):\n    return 2 * number\n"
MORE = "\n\ndef half(number):\n    return number / 2\n"
TEST = "from dsl.sums import *\n\ndef test_double():\n    assert double(1) == 2\n"
MORE_TEST = "from dsl.sums import *\n\ndef test_half():\n    assert half(2) == 1\n"
SPINNING = "def test_spins():\n    while True: pass\n"


def git(folder: Path, *arguments: str) -> None:
    """Run git in a folder."""
    subprocess.run(("git", *AUTHOR, *arguments), cwd=folder, check=True, capture_output=True)


def write(folder: Path, **texts: str) -> None:
    """Write files; `__` stands for `/`, and each ends in `.py`."""
    for name, text in texts.items():
        path = folder / (name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def commit(folder: Path, **texts: str) -> None:
    """Write files and commit all there is."""
    write(folder, **texts)
    git(folder, "add", "--all")
    git(folder, "commit", "-m", "dsl: a change")


def check(folder: Path, since: str = "", seconds: int = 60) -> tuple[int, str]:
    """The code and the words that the check ends with."""
    run = f"import os, sys, changed_lines as c; sys.exit(c.main(c.Path.cwd(), os.environ, {seconds}))"
    inside = {**os.environ, "PYTHONPATH": str(SUPPORT), SINCE: since}
    done = subprocess.run(
        (sys.executable, "-c", run), cwd=folder, env=inside, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def at(folder: Path, name: str) -> str:
    """The hash of a commit."""
    found = subprocess.run(("git", "rev-parse", name), cwd=folder, check=True, capture_output=True, text=True)
    return found.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one file of code and its test, in one commit."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "pyproject.toml").write_text(SETTINGS)
    commit(folder, dsl__sums=CODE, tests__dsl__test_sums=TEST, tests__conftest=OPTIONS)
    return folder


@pytest.mark.slow
def test_a_line_that_no_test_takes_is_refused_and_named_before_it_is_committed(repository: Path) -> None:
    commit(repository, docs__conf="")
    write(repository, dsl__sums=CODE + MORE)
    code, said = check(repository)
    assert (code != 0, "dsl/sums.py (50.0%): Missing lines 6" in said) == (True, True), said


@pytest.mark.slow
def test_a_line_that_a_test_takes_which_changed_with_it_passes(repository: Path) -> None:
    commit(repository, dsl__sums=CODE + MORE, tests__plans__test_halves=MORE_TEST)
    code, said = check(repository)
    assert (code, "Coverage: 100%" in said) == (0, True), said


@pytest.mark.slow
def test_a_test_that_fails_is_shown(repository: Path) -> None:
    commit(repository, dsl__sums=CODE.replace("2", "3"))
    code, said = check(repository)
    assert (code, "assert 3 == 2" in said) == (1, True), said


@pytest.mark.slow
def test_tests_that_compute_for_too_long_leave_the_lines_unchecked(repository: Path) -> None:
    commit(repository, dsl__sums=CODE + MORE, tests__dsl__test_sums=SPINNING)
    assert check(repository, seconds=1) == (
        0, "the tests of what changed compute for more than 1 s: changed lines are not checked\n",
    )  # fmt: skip


def test_all_commits_since_the_main_branch_was_left_are_looked_at(repository: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", repository.as_uri(), "clone")
    for number in (1, 2):
        commit(tmp_path / "clone", dsl__sums=f"NUMBER = {number}")
    assert earlier(tmp_path / "clone", {}) == at(repository, "HEAD")


def test_on_the_main_branch_the_last_commit_is_looked_at(repository: Path, tmp_path: Path) -> None:
    commit(repository, dsl__sums="NUMBER = 1")
    git(tmp_path, "clone", "--quiet", repository.as_uri(), "clone")
    assert earlier(tmp_path / "clone", {}) == at(repository, "HEAD^")


def test_a_commit_to_compare_with_can_be_named(repository: Path) -> None:
    for number in (1, 2):
        commit(repository, dsl__sums=f"NUMBER = {number}")
    assert earlier(repository, {SINCE: "HEAD~2"}) == at(repository, "HEAD~2")


@pytest.mark.parametrize("since", ["", "0" * 40])
def test_a_clone_without_an_earlier_commit_says_so(repository: Path, since: str) -> None:
    assert check(repository, since) == (0, "no earlier commit here: changed lines are not checked\n")


def test_a_change_of_no_code_says_so(repository: Path) -> None:
    commit(repository, docs__conf="", runtime__spark__rows=CODE)
    code, said = check(repository)
    assert (code, said.startswith("no code with tests changed since ")) == (0, True)


def test_a_file_without_a_test_of_its_name_has_those_of_its_row(tmp_path: Path) -> None:
    changed = ["dsl/sums.py", "dsl/constants.py", "tests/plans/test_halves.py", "tests/plans/samples.py", "docs/a.md"]
    rows = {"dsl/sums.py": ("tests/test_sums.py",)}
    assert chosen_tests(tmp_path, changed, rows) == {
        "dsl/sums.py": {"tests/test_sums.py", "tests/plans/test_halves.py"}
    }
