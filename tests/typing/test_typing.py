"""What type checkers say of users' files: of the wheel in an environment of its own, and of the environment at hand."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

import users_mypy

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent / "samples"
BAD = re.compile(r"# BAD ([\w,-]+) ([\w,]+): ")

Codes = dict[tuple[str, int], set[str]]
"""The codes of errors, by file and line."""

FINDING = (0, 1)
"""The exit codes of a type checker: that of one that finds errors is 1."""

pytestmark = pytest.mark.slow


def run(*command: str | Path, folder: Path, codes: tuple[int, ...] = (0,)) -> str:
    """What a command prints, which is to end with one of these exit codes."""
    # With a PYTHONPATH, pip takes what it finds there for installed.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False, env=env)
    assert ran.returncode in codes, ran.stdout + ran.stderr
    return ran.stdout


def mypy(python: Path, folder: Path) -> Codes:
    text = run(*users_mypy.command(python, *folder.glob("*.py")), folder=folder, codes=FINDING)
    found: Codes = {}
    for file, line, code in re.findall(r"^(\w+\.py):(\d+): error: .*\[([\w-]+)\]$", text, re.MULTILINE):
        found.setdefault((file, int(line)), set()).add(code)
    assert text.count(": error:") == sum("error:" in line for line in text.splitlines()), text
    return found


def pyright(python: Path, folder: Path) -> Codes:
    options = ("--outputjson", f"--pythonpath={python}")
    text = run(sys.executable, "-m", "pyright", *options, *folder.glob("*.py"), folder=folder, codes=FINDING)
    found: Codes = {}
    for told in json.loads(text)["generalDiagnostics"]:
        if told["severity"] == "error":
            place = (Path(told["file"]).name, told["range"]["start"]["line"] + 1)
            found.setdefault(place, set()).add(told.get("rule", "syntax"))
    return found


CHECKERS: Mapping[str, Callable[[Path, Path], Codes]] = {"mypy": mypy, "pyright": pyright}


def wanted(folder: Path, checker: str) -> Codes:
    """What the marks of a folder's files say that a checker finds."""
    place = list(CHECKERS).index(checker)
    lines = {(file.name, at): line for file in folder.glob("*.py") for at, line in numbered(file)}
    marks = {at: BAD.search(line) for at, line in lines.items()}
    return {at: set(mark.groups()[place].split(",")) for at, mark in marks.items() if mark}


def numbered(file: Path) -> Iterator[tuple[int, str]]:
    return enumerate(file.read_text().splitlines(), 1)


def environment(folder: Path, wheel: Path) -> Path:
    """The interpreter of an environment that holds the wheel; its dependencies are those of the environment at hand."""
    run(sys.executable, "-m", "venv", "--without-pip", folder, folder=folder.parent)
    python = folder / "bin" / "python"
    pip = (sys.executable, "-m", "pip", f"--python={python}", "install", "--quiet", "--no-deps", "--no-index", wheel)
    run(*pip, folder=folder.parent)
    assert installed(python).is_dir()
    # What a .pth file of the other environment says is not followed from here: its editable install stays there.
    (installed(python).parent / "dependencies.pth").write_text(sysconfig.get_path("purelib"))
    return python


def installed(python: Path) -> Path:
    """The folder of the package in an environment."""
    return next((python.parents[1] / "lib").glob("python*/site-packages")) / "fluvial"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that FLUVIAL_WHEEL names, as `make release-check` does; else the wheel of this working tree.

    It is built beside the working tree: what a build leaves behind would get into the next one.
    """
    if built := os.environ.get("FLUVIAL_WHEEL"):
        return Path(built)
    source = tmp_path_factory.mktemp("source")
    for name in ("dsl", "planner", "runtime"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", "dist", folder=source)
    return next((source / "dist").glob("*.whl"))


@pytest.fixture(scope="module")
def of_the_wheel(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with the wheel."""
    return environment(tmp_path_factory.mktemp("environment") / "venv", wheel)


@pytest.fixture
def misuse(tmp_path: Path) -> Path:
    """A folder outside the repository, with a user's file that has every error."""
    folder = tmp_path / "misuse"
    folder.mkdir()
    shutil.copy(SAMPLES / "misuse.py", folder)
    return folder


@pytest.mark.parametrize("checker", CHECKERS)
def test_checkers_find_what_is_marked_and_nothing_else(of_the_wheel: Path, misuse: Path, checker: str) -> None:
    shutil.copy(SAMPLES / "chains.py", misuse)
    assert CHECKERS[checker](of_the_wheel, misuse) == wanted(misuse, checker)


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_file_outside_the_repository_is_checked_in_the_environment_of_make_setup(misuse: Path, checker: str) -> None:
    assert CHECKERS[checker](Path(sys.executable), misuse) == wanted(misuse, checker)


@pytest.mark.long  # of the tests above alone
@pytest.mark.parametrize("checker", CHECKERS)
def test_these_tests_would_notice_a_getattr_that_checkers_see(
    wheel: Path, tmp_path: Path, misuse: Path, checker: str
) -> None:
    python = environment(tmp_path / "venv", wheel)
    for module in ("dsl/stream.py", "runtime/__init__.py", "runtime/serdes/__init__.py"):
        code = installed(python) / module
        hidden = code.read_text()
        assert hidden.count("if not TYPE_CHECKING:") == 1
        code.write_text(hidden.replace("if not TYPE_CHECKING:", "if True:"))
    missed = wanted(misuse, checker).keys() - CHECKERS[checker](python, misuse).keys()
    lines = [line for at, line in numbered(misuse / "misuse.py") if ("misuse.py", at) in missed]
    for word in (".windwo(", ".fliter(", "unkeyed.window(", " rnu ", " arvo "):
        assert any(word in line for line in lines), word
