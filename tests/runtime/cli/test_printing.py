"""What is printed to a pipe that nobody reads."""

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import TextIO

import pytest

from fluvial.runtime.cli import printing


@pytest.fixture
def full() -> Iterator[TextIO]:
    """The end of a pipe that takes no more."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    with open(writing, "w") as stream:
        yield stream
        os.close(reading)


def test_the_last_lines_wait_for_nobody_and_standard_error_says_so(
    full: TextIO, capfd: pytest.CaptureFixture[str]
) -> None:
    printing.print_last("read 3", full, patience=0.1)
    assert capfd.readouterr().err == (
        "The summary or report of this run is left out: nobody reads the pipe that it goes to.\n"
    )


def test_what_is_read_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    with os.fdopen(os.dup(1), "w") as stream:
        printing.print_last("read 3", stream)
    assert capfd.readouterr() == ("read 3\n", "")
