"""Programs that tests start: the command line of Fluvial, and servers that print where they listen."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLI = "import sys; from fluvial.runtime.cli.entry import main; sys.exit(main())"
"""What `python -c` runs in place of `fluvial`, which need not be on the path."""


@contextmanager
def serving(*words: str) -> Iterator[str]:
    """A Python program with these words, in the folder of the repository; the first line that it prints."""
    with subprocess.Popen([sys.executable, *words], cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


ENGINES = ["local", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.long])]
"""Both engines, as parameters of a test that Spark runs at length alone."""
