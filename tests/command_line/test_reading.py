"""Commands that only read: they create no log, whatever folder they are told to read."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from engines.command_line import Fluvial

READING: Sequence[tuple[Sequence[str], int]] = [
    (("consume", "words"), 3),
    (("consume", "words", "--until", "stopped"), 3),
    (("plan", "letters.py"), 0),
    (("draw", "letters.py"), 0),
    (("check", "letters.py"), 3),
    (("state", "get", "letters.py", "count", "a"), 2),
    (("state", "scan", "letters.py", "count"), 2),
    (("run", "letters.py", "--until", "end"), 3),
    (("reset", "letters.py", "--all", "--dry-run"), 2),
    (("reset", "letters.py", "--state", "count"), 2),
]


@pytest.mark.parametrize(("command", "code"), READING, ids=[" ".join(command) for command, _ in READING])
def test_a_log_that_is_not_there_is_not_made(fluvial: Fluvial, folder: Path, command: Sequence[str], code: int) -> None:
    before = {*folder.iterdir(), folder / "__pycache__"}  # Python's own, where it writes bytecode
    ended = fluvial(*command, "--system", "log:missing")
    assert (ended.code, {*folder.iterdir()} - before) == (code, set())
