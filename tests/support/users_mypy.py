"""mypy as users run it, in strict mode, on files outside the repository."""

import sys
from pathlib import Path

_CACHE = Path(__file__).parents[2] / ".mypy_cache" / "users"
"""One for all, kept from run to run: half a minute goes into what users' files import."""


def command(python: str | Path, *files: str | Path) -> list[str]:
    """The command that checks files with what the environment of an interpreter holds."""
    options = ("--strict", "--config-file=", "--no-pretty", "--show-error-codes", f"--cache-dir={_CACHE}")
    return [sys.executable, "-m", "mypy", *options, f"--python-executable={python}", *map(str, files)]
