"""Options with a wrong value: the error has the form of all others, and the exit code is 2."""

from collections.abc import Sequence

import pytest

from fluvial.runtime.cli.app import main

WRONG: Sequence[tuple[Sequence[str], str, str]] = [
    (("run", "a.py", "--engine", "x"), "--engine 'x'", "one of 'local', 'spark'"),
    (("check", "a.py", "--engine", "x"), "--engine 'x'", "one of 'local', 'spark'"),
    (("run", "a.py", "--container-id", "-1"), "--container-id does not take this value", "greater than or equal to 0"),
    (("state", "scan", "a.py", "t", "--limit", "a"), "--limit does not take this value", "a valid integer"),
    (("state", "scan", "a.py", "t", "--limit", str(1 << 63)), "--limit does not take this value", str((1 << 63) - 1)),
    (("consume", "words", "--limit", str(1 << 63)), "--limit does not take this value", str((1 << 63) - 1)),
]


@pytest.mark.parametrize(("command", "wrong", "expected"), WRONG)
def test_a_wrong_value_is_explained(
    capsys: pytest.CaptureFixture[str], command: Sequence[str], wrong: str, expected: str
) -> None:
    assert main(command) == 2
    first, place, third, fourth = capsys.readouterr().err.splitlines()
    assert (first, place) == (wrong, "  at the command line")
    assert third.startswith("  expected: ")
    assert expected in third
    assert fourth.startswith("  to do: correct --")


def test_a_missing_argument_shows_the_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run"]) == 2
    assert "Usage: fluvial run" in capsys.readouterr().err
