"""Runs in each event loop that a setting names: the same results, interruptions and stops."""

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from textwrap import dedent
from typing import get_args

import pytest

from engines.targets import contents, write
from explained import error_of
from fluvial.dsl import MissingExtraError, Pipeline, Retry, skip
from fluvial.planner import Settings
from fluvial.planner.settings import EventLoop
from fluvial.runtime import run
from fluvial.runtime.process.event_loops import loop_maker
from fluvial.runtime.systems import LogSystem, MemorySystem
from kafka.container_runs import PATIENCE

LOOPS: Sequence[EventLoop] = get_args(EventLoop)


def filled(count: int) -> MemorySystem:
    """Numbers to be looked up."""
    system = MemorySystem()
    write(system, {"numbers": [[(b"%d" % (number % 7), b"%d" % number, 0, ()) for number in range(count)]]})
    return system


@pytest.mark.parametrize("event_loop", LOOPS)
def test_a_run_has_the_loop_that_it_asks_for_and_the_results_of_any(event_loop: EventLoop) -> None:
    seen, tries = set[str](), dict[int, int]()

    async def look_up(number: int) -> list[int]:
        seen.add(type(asyncio.get_running_loop()).__mro__[1].__module__.partition(".")[0])
        tries[number] = tries.get(number, 0) + 1
        await asyncio.sleep(0.001 * (number % 3))
        if number % 10 == 3:
            await asyncio.sleep(60)
        if number % 5 == 0 and tries[number] == 1:
            raise ConnectionError
        return [number, await asyncio.to_thread(abs, -number)]

    pipeline = Pipeline("looked-up", on_error=skip())
    retry, timeout = Retry(attempts=2, delay=timedelta(milliseconds=1)), timedelta(milliseconds=200)
    numbers = pipeline.stream("numbers", value=int)
    found = numbers.async_flat_map(look_up, id="look-up", order="input", timeout=timeout, retry=retry)
    found.send_to("found")
    system = filled(100)
    report = run(pipeline, system=system, settings=Settings(event_loop=event_loop), until="end")
    expected = [b"%d" % number for number in range(100) if number % 10 != 3 for _ in range(2)]
    assert [record[1] for record in contents(system, "found")] == expected
    assert report.failed == {"look-up": 10}
    assert seen == {event_loop}
    assert all(tries[number] == (2 if number % 5 == 0 or number % 10 == 3 else 1) for number in range(100))


@pytest.mark.parametrize("event_loop", LOOPS)
def test_time_in_which_the_loop_is_blocked_costs_no_call_its_timeout(event_loop: EventLoop) -> None:
    async def look_up(number: int) -> list[int]:
        if number == 5:
            time.sleep(1.5)  # noqa: ASYNC251 - what is tested
        await asyncio.sleep(0.01)
        return [number]

    pipeline = Pipeline("blocked", on_error=skip())
    timeout = timedelta(seconds=1)
    pipeline.stream("numbers", value=int).async_flat_map(look_up, id="look-up", timeout=timeout).send_to("found")
    report = run(pipeline, system=filled(20), settings=Settings(event_loop=event_loop), until="end")
    assert report.failed == {}


PROGRAM = """
    import asyncio, sys, time
    from pathlib import Path
    from fluvial.dsl import Pipeline
    from fluvial.planner import Settings
    from fluvial.runtime import run
    from fluvial.runtime.systems import LogSystem

    async def look_up(number: int) -> list[int]:
        await asyncio.sleep(0.001)
        if number == 50:
            {at_fifty}
        return [number]

    pipeline = Pipeline("looked-up")
    pipeline.stream("numbers", value=int).async_flat_map(look_up, id="look-up").send_to("found")
    try:
        run(pipeline, system=LogSystem(sys.argv[1]), settings=Settings(event_loop=sys.argv[2]), until={until!r})
    except BaseException as raised:
        print(type(raised).__name__)
    else:
        print("ended")
"""


def begun(folder: Path, event_loop: EventLoop, at_fifty: str, until: str = "end") -> "subprocess.Popen[str]":
    """A program that looks up a hundred numbers of a log."""
    write(LogSystem(folder / "log"), {"numbers": [[(None, b"%d" % number, 0, ()) for number in range(100)]]})
    program = folder / "program.py"
    program.write_text(dedent(PROGRAM).format(at_fifty=at_fifty, until=until))
    words = [sys.executable, str(program), str(folder / "log"), event_loop]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("event_loop", LOOPS)
@pytest.mark.parametrize(
    ("raised", "expected"), [("KeyboardInterrupt", "KeyboardInterrupt"), ("SystemExit", "MessageError")]
)
def test_what_ends_a_process_ends_the_run_and_is_reported_once(
    tmp_path: Path, event_loop: EventLoop, raised: str, expected: str
) -> None:
    with begun(tmp_path, event_loop, f"raise {raised}") as program:
        out, told = program.communicate(timeout=PATIENCE)
    assert out == f"{expected}\n"
    assert "Traceback" not in told


@pytest.mark.parametrize("event_loop", LOOPS)
def test_sigterm_ends_a_run_after_a_commit(tmp_path: Path, event_loop: EventLoop) -> None:
    with begun(tmp_path, event_loop, "print('at it', flush=True)", until="stopped") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "at it\n"
        program.send_signal(signal.SIGTERM)
        out, told = program.communicate(timeout=PATIENCE)
    assert out == "ended\n"
    assert told == ""


@pytest.mark.slow
def test_sigterm_ends_a_run_that_stands_still_in_a_call(tmp_path: Path) -> None:
    """The function blocks the loop for good, so that only a thread can end it; it must be told of the signal."""
    blocks = "print('at it', flush=True); [time.sleep(1) for _ in iter(int, 1)]"
    with begun(tmp_path, "uvloop", blocks, until="stopped") as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "at it\n"
        program.send_signal(signal.SIGTERM)
        _, told = program.communicate(timeout=PATIENCE)
    assert "is stopped without a last commit" in told


def test_a_loop_beside_the_main_thread_leaves_signals_alone() -> None:
    before = signal.set_wakeup_fd(-1)
    results = list[int]()

    def run_there() -> None:
        loop = loop_maker("uvloop")()
        results.append(loop.run_until_complete(asyncio.sleep(0, 5)))
        loop.close()

    thread = threading.Thread(target=run_there)
    thread.start()
    thread.join()
    assert results == [5]
    assert signal.set_wakeup_fd(before) == -1


def test_a_loop_that_is_not_installed_is_reported_before_anything_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    pipeline, system = Pipeline("copied"), filled(1)
    pipeline.stream("numbers", value=int).send_to("copies")
    settings = Settings(event_loop="uvloop")
    error = error_of(lambda: run(pipeline, system=system, settings=settings, until="end"), MissingExtraError)
    assert "event_loop='uvloop', and uvloop is not installed" in str(error)
    assert "pip install 'fluvial[uvloop]'" in str(error)
    assert set(system.admin().streams()) == {"numbers"}
