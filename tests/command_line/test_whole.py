"""The command line as a whole: help, version, exit codes, tracebacks, pipes, signals."""

import os
import signal
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from engines.command_line import Fluvial
from waiting import wait_until

COMMAND = [sys.executable, "-c", "import sys; from fluvial.runtime.cli.entry import main; sys.exit(main())"]


def test_help_lists_the_verbs_and_the_exit_codes(fluvial: Fluvial) -> None:
    ended = fluvial("--help")
    assert ended.code == 0
    for word in ("run", "plan", "draw", "check", "produce", "consume", "Exit codes:"):
        assert word in ended.out


@pytest.mark.parametrize("verb", ["run", "plan", "draw", "check", "produce", "consume"])
def test_every_verb_has_help(fluvial: Fluvial, verb: str) -> None:
    ended = fluvial(verb, "-h")
    assert (ended.code, ended.err) == (0, "")
    assert f"fluvial {verb}" in ended.out


def test_version(fluvial: Fluvial) -> None:
    assert fluvial("--version").out == f"fluvial {version('fluvial')}\n"


@pytest.mark.parametrize(
    "words",
    [["fly"], ["run"], ["run", "letters.py", "--wings"]],
)
def test_wrong_usage(fluvial: Fluvial, words: list[str]) -> None:
    ended = fluvial(*words)
    assert (ended.code, ended.out) == (2, "")
    assert "Usage: fluvial" in ended.err


def test_a_wrong_setting(fluvial: Fluvial) -> None:
    ended = fluvial("run", "letters.py", "--commit-interval", "5")
    assert ended.code == 2
    assert ended.err.startswith("--commit-interval 5\n  at the command line\n  expected: a number with a unit")


def test_an_error_is_printed_as_it_is(fluvial: Fluvial) -> None:
    ended = fluvial("plan", "[bold]nope[/bold].py")
    assert ended.err.startswith("there is no file '[bold]nope[/bold].py'\n")


@pytest.mark.parametrize("words", [["--debug", "plan", "nope.py"], ["plan", "nope.py", "--debug"]])
def test_a_traceback_is_for_those_who_ask(fluvial: Fluvial, words: list[str]) -> None:
    ended = fluvial(*words)
    assert ended.code == 2
    assert ended.err.startswith("there is no file 'nope.py'\n")
    assert "Traceback (most recent call last)" in ended.err


@pytest.mark.slow
def test_a_pipe_that_closes_is_quiet(fluvial: Fluvial, folder: Path) -> None:
    (folder / "many").write_text("a line of some length\n" * 20_000)
    fluvial("produce", "many", "many")
    with subprocess.Popen([*COMMAND, "consume", "many"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "unbuffered"),
    [
        (["consume", "words"], ""),
        (["consume", "words"], "1"),
        (["run", "letters.py", "--until", "end"], ""),
        (["plan", "letters.py"], ""),
    ],
)
def test_a_standard_output_that_is_full(fluvial: Fluvial, words: list[str], unbuffered: str) -> None:
    fluvial("produce", "words", "words.jsonl")
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    with open("/dev/full", "wb") as full:
        ended = subprocess.run([*COMMAND, *words], stdout=full, stderr=-1, text=True, check=False, env=environment)
    assert ended.returncode == 4
    assert "standard output" in ended.stderr
    assert "No space left on device" in ended.stderr
    assert "free space on the disk" in ended.stderr.splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
def test_a_standard_error_that_takes_nothing_changes_no_exit_code(fluvial: Fluvial, stderr: str) -> None:
    fluvial("produce", "words", "words.jsonl")
    for words, code in ((["run", "letters.py", "--until", "end"], 0), (["plan", "nope.py"], 2)):
        ended = subprocess.run(["sh", "-c", f'exec "$@" {stderr}', "", *COMMAND, *words], stdout=-1, check=False)
        assert (ended.returncode, bool(ended.stdout)) == (code, code == 0)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_stops_when_it_is_told(fluvial: Fluvial, folder: Path, number: signal.Signals) -> None:
    fluvial("produce", "words", "words.jsonl")
    out = folder / "out"
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with (
        out.open("w") as file,
        subprocess.Popen([*COMMAND, "run", "letters.py"], stdout=file, stderr=file, env=environment) as process,
    ):
        until_read(fluvial)
        process.send_signal(number)
        assert process.wait(30) == 0
    assert "letters on local: " in out.read_text()


@pytest.mark.slow
def test_a_load_that_is_stopped_leaves_no_log(folder: Path) -> None:
    temporary = folder / "temporary"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    words = ["run", "letters.py", "--input", "words=-"]
    with subprocess.Popen([*COMMAND, *words], stdin=-1, cwd=folder, env=environment) as process:
        assert process.stdin is not None
        process.stdin.write(b'{"text":"x","at":1}\n')
        process.stdin.flush()
        wait_until(lambda: list(temporary.glob("fluvial-*/log/streams/words/0")), "the load has begun")
        process.terminate()
        assert process.wait(60) == 143
    assert list(temporary.iterdir()) == []


def until_read(fluvial: Fluvial) -> None:
    """Wait until the run has handed its words on."""
    wait_until(lambda: fluvial("consume", "letters-by-letter").out, "words are read")


@pytest.mark.slow
def test_nothing_of_spark_is_loaded() -> None:
    code = "import sys, fluvial.runtime.cli.app; print([name for name in sys.modules if name.startswith('pyspark')])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
