"""Golden files: texts that change only when somebody wants them to."""

import os
from pathlib import Path

REWRITE = "FLUVIAL_REWRITE"
"""The variable of the environment with which `make golden` lets tests write their files anew."""


def assert_golden(text: str, file: Path) -> None:
    """Fail unless a file holds this text. After a wanted change: `make golden`, and read the difference."""
    if os.environ.get(REWRITE):
        file.write_text(text, "utf-8")
    assert text == file.read_text("utf-8")
