"""What type checkers say of users' files: of the wheel in an environment of its own, and of the environment at hand."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLES = Path(__file__).parent / "samples"
BAD = re.compile(r"# BAD ([\w,-]+) ([\w,]+): ")

Codes = dict[int, set[str]]
"""The codes of errors by line."""

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


def mypy(python: Path, file: Path) -> Codes:
    options = ("--strict", "--config-file=", f"--python-executable={python}", "--show-error-codes", "--no-pretty")
    text = run(
        sys.executable,
        "-m",
        "mypy",
        *options,
        f"--cache-dir={file.parent / 'cache'}",
        file,
        folder=file.parent,
        codes=FINDING,
    )
    found: Codes = {}
    for line, code in re.findall(rf"^{file.name}:(\d+): error: .*\[([\w-]+)\]$", text, re.MULTILINE):
        found.setdefault(int(line), set()).add(code)
    assert text.count(": error:") == sum("error:" in line for line in text.splitlines()), text
    return found


def pyright(python: Path, file: Path) -> Codes:
    text = run(
        sys.executable,
        "-m",
        "pyright",
        "--outputjson",
        f"--pythonpath={python}",
        file,
        folder=file.parent,
        codes=FINDING,
    )
    found: Codes = {}
    for told in json.loads(text)["generalDiagnostics"]:
        if told["severity"] == "error":
            found.setdefault(told["range"]["start"]["line"] + 1, set()).add(told.get("rule", "syntax"))
    return found


CHECKERS: Mapping[str, Callable[[Path, Path], Codes]] = {"mypy": mypy, "pyright": pyright}


def wanted(file: Path, checker: str) -> Codes:
    """What the marks of a file say that a checker finds."""
    place = list(CHECKERS).index(checker)
    marks = {number: BAD.search(line) for number, line in enumerate(file.read_text().splitlines(), 1)}
    return {number: set(mark.groups()[place].split(",")) for number, mark in marks.items() if mark}


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


@pytest.fixture(params=["misuse.py", "chains.py"])
def sample(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A user's file, outside the repository."""
    return Path(shutil.copy(SAMPLES / request.param, tmp_path))


@pytest.mark.parametrize("checker", CHECKERS)
def test_checkers_find_what_is_marked_and_nothing_else(of_the_wheel: Path, sample: Path, checker: str) -> None:
    assert CHECKERS[checker](of_the_wheel, sample) == wanted(sample, checker)


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_file_outside_the_repository_is_checked_in_the_environment_of_make_setup(
    tmp_path: Path, checker: str
) -> None:
    file = Path(shutil.copy(SAMPLES / "misuse.py", tmp_path))
    assert CHECKERS[checker](Path(sys.executable), file) == wanted(file, checker)


@pytest.mark.parametrize("checker", CHECKERS)
def test_these_tests_would_notice_a_getattr_that_checkers_see(wheel: Path, tmp_path: Path, checker: str) -> None:
    python = environment(tmp_path / "venv", wheel)
    for module in ("dsl/stream.py", "runtime/__init__.py", "runtime/serdes/__init__.py"):
        code = installed(python) / module
        hidden = code.read_text()
        assert hidden.count("if not TYPE_CHECKING:") == 1
        code.write_text(hidden.replace("if not TYPE_CHECKING:", "if True:"))
    file = Path(shutil.copy(SAMPLES / "misuse.py", tmp_path))
    missed = wanted(file, checker).keys() - CHECKERS[checker](python, file).keys()
    lines = [file.read_text().splitlines()[number - 1] for number in missed]
    for word in (".windwo(", ".fliter(", "unkeyed.window(", " rnu ", " arvo "):
        assert any(word in line for line in lines), word
