"""The example of visitor sessions, on the log of a real web site and beside an oracle without any Fluvial in it."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from examples import traffic
from fluvial.runtime.cli.app import main
from oracle.visits import DATA, in_order, sessions
from programs import ENGINES

Values = Callable[[Path], list[dict[str, Any]]]


def run_on(run: Callable[..., str], lines: list[str], values: Values, folder: Path) -> list[dict[str, Any]]:
    (folder / "access.log").write_text("".join(f"{line}\n" for line in lines))
    files = ("--input", f"access-log={folder}/access.log", "--output", f"sessions={folder}/sessions")
    run("visitor_sessions.py", *files, "--output", f"visitor-sessions-dead-letters={folder}/letters", "--raw")
    return in_order(values(folder / "sessions"))


@pytest.fixture(scope="session")
def real_log() -> list[str]:
    if not DATA.exists():
        pytest.skip(f"{DATA.name} is not beside the repository")
    with gzip.open(DATA, "rt") as file:
        return file.read().splitlines()


def test_sessions_of_a_real_log_are_those_of_the_oracle(
    run: Callable[..., str], values: Values, real_log: list[str], tmp_path: Path
) -> None:
    expected = in_order(sessions(real_log))
    assert len(expected) > 3_000
    assert run_on(run, real_log, values, tmp_path) == expected


# In each run test_demo.py compares both engines with such traffic.
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_sessions_of_made_traffic_are_those_of_the_oracle(
    run: Callable[..., str], values: Values, tmp_path: Path
) -> None:
    lines = traffic.lines(2_000)
    expected = in_order(sessions(lines))
    assert run_on(run, lines, values, tmp_path) == expected
    assert set((tmp_path / "letters").read_text().splitlines()) == {traffic.GARBLED}


# On Spark tests/conformance has dead letters each time.
@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_malformed_lines_are_dead_letters_with_reason_and_position(
    run: Callable[..., str], capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    lines = ["garbled", *traffic.lines(20, seed=1), ""]
    (tmp_path / "access.log").write_text("".join(f"{line}\n" for line in lines))
    url = f"log:{tmp_path}/log"
    run("visitor_sessions.py", "--system", url, "--input", f"access-log={tmp_path}/access.log")
    capsysbinary.readouterr()

    main(["consume", "visitor-sessions-dead-letters", "--system", url])

    letters = [msgspec.json.decode(line) for line in capsysbinary.readouterr().out.splitlines()]
    told = {letter["value"]: dict(letter["headers"]) for letter in letters}
    assert set(told) == {"garbled", ""}
    assert [told[line]["fluvial-offset"] for line in ("garbled", "")] == ["0", str(len(lines) - 1)]
    assert all("no line of an access log: expected" in headers["fluvial-error"] for headers in told.values())
