"""The line that an error names is the user's."""

import asyncio
from threading import Thread
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


def test_what_a_loop_calls_names_the_line_that_runs_the_loop() -> None:
    ours: dict[str, Any] = {"__name__": "fluvial.something", "here": here, "asyncio": asyncio}
    exec("async def at(): return here()\ndef run(): return asyncio.run(at())", ours)
    at = ours["run"]()
    assert (at.file, at.line + 1) == (here().file, here().line)


def test_a_thread_of_ours_has_no_line_of_the_users() -> None:
    ours: dict[str, Any] = {"__name__": "fluvial.something", "here": here, "origins": []}
    exec("def note(): origins.append(here())", ours)
    thread = Thread(target=ours["note"])
    thread.start()
    thread.join()
    assert [str(at) for at in ours["origins"]] == ["a thread of the run"]
