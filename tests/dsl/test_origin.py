"""The line that an error names is the user's."""

from typing import Any

from fluvial.dsl.origin import here

CODE = """
from contextlib import contextmanager
from fluvial.dsl.origin import here

@contextmanager
def opened():
    yield here()
"""


def test_what_ours_open_names_the_line_that_asked_for_it() -> None:
    ours: dict[str, Any] = {"__name__": "fluvial.something"}
    exec(CODE, ours)
    with ours["opened"]() as at:
        assert (at.file, at.line + 1) == (here().file, here().line)


def test_the_command_line_has_no_lines() -> None:
    ours: dict[str, Any] = {"__name__": "fluvial.runtime.cli.app", "here": here}
    exec("at = here()", ours)
    assert str(ours["at"]) == "the command line"
