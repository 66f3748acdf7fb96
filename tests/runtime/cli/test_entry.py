"""The program `fluvial`: signals that come while it starts."""

import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fluvial.runtime.process.early_stop import SENTENCE

ROOT = Path(__file__).parents[3]
MODULE, FUNCTION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]["fluvial"].split(":")
PROGRAM = [sys.executable, "-c", f"import sys; from {MODULE} import {FUNCTION}; sys.exit({FUNCTION}())"]

STANDS_STILL = 'import time\nprint("here", flush=True)\ntime.sleep(60)\n'
# No handler runs in its main thread, as in a call of C that goes on after a signal.
IS_DEAF = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n" + STANDS_STILL
WITH_A_CHILD = """
import os
child = os.fork()
if not child:
    import signal, time
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(60)
print(os.WTERMSIG(os.waitpid(child, 0)[1]), flush=True)
"""

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def heeded() -> Iterator[None]:
    """SIGINT is not ignored, as it is by what a shell runs in the background, and by all that is started there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def started(folder: Path, *words: str) -> "Iterator[subprocess.Popen[str]]":
    """The program with these words, once it stands still."""
    with subprocess.Popen([*PROGRAM, *words], cwd=folder, stdin=-3, stdout=-1, stderr=-1, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        yield process
        process.kill()


def told(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[int, str]:
    """The exit code of a process after a signal, and what it said."""
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    return process.returncode, said


@pytest.mark.parametrize("file", ["typer.py", "slow.py"], ids=["its imports", "the pipeline's module"])
@pytest.mark.parametrize("code", [STANDS_STILL, IS_DEAF], ids=["", "deaf"])
def test_sigterm_ends_a_run_that_has_not_begun_as_one_that_has(tmp_path: Path, file: str, code: str) -> None:
    (tmp_path / file).write_text(code)
    with started(tmp_path, "run", "slow.py") as process:
        assert told(process, signal.SIGTERM) == (0, f"{SENTENCE}\n")


@pytest.mark.parametrize("option", [("--input", "in=-"), ("--output=out=-",)])
def test_a_run_that_has_not_written_its_files_does_not_look_done(tmp_path: Path, option: tuple[str, ...]) -> None:
    (tmp_path / "slow.py").write_text(STANDS_STILL)
    with started(tmp_path, "run", "slow.py", *option) as process:
        assert told(process, signal.SIGTERM) == (143, f"{SENTENCE}\n")


@pytest.mark.parametrize("verb", ["plan", "run"])
def test_sigint_while_it_imports_says_nothing(tmp_path: Path, verb: str) -> None:
    (tmp_path / "typer.py").write_text(STANDS_STILL)
    with started(tmp_path, verb, "slow.py") as process:
        assert told(process, signal.SIGINT) == (130, "")


def test_other_commands_end_as_any_program(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(STANDS_STILL)
    with started(tmp_path, "plan", "slow.py") as process:
        assert told(process, signal.SIGTERM) == (-signal.SIGTERM, "")


def test_a_child_that_a_module_forks_has_the_handler_from_before(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(WITH_A_CHILD)
    ended = subprocess.run([*PROGRAM, "run", "slow.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (2, f"{int(signal.SIGTERM)}\n")
    assert "slow.py holds no Pipeline" in ended.stderr
