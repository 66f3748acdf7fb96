"""A process that makes the calls of a function: how it answers, how it ends, and what it leaves to its parent."""

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import pytest

from faults.pooled_functions import Opened, asked
from fluvial.runtime.process.function_process import FunctionProcess, _death
from waiting import wait_until

pytestmark = pytest.mark.slow


@pytest.fixture
def process() -> Iterator[FunctionProcess]:
    started = FunctionProcess("asked")
    started.start(pickle.dumps(asked))
    yield started
    started.kill()
    started.release()


def call(process: FunctionProcess, *args: Any) -> Any:
    return process.call(pickle.dumps((args, {})))


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_it_makes_calls_and_leaves_signals_to_its_parent(process: FunctionProcess) -> None:
    assert call(process, "tea") == ["tea", process.pid]
    assert call(process, "signals") == ["signals", process.pid]
    assert os.getsid(process.pid) == process.pid  # Ctrl-C of a terminal does not reach it


def test_a_child_of_its_function_ends_by_signals_as_ever(process: FunctionProcess) -> None:
    assert call(process, "fork") == [-signal.SIGTERM]


def test_errors_are_those_of_the_function_with_where_they_were_raised(process: FunctionProcess) -> None:
    with pytest.raises(LookupError, match="fail it") as raised:
        call(process, "fail it")
    assert "pooled_functions.py" in raised.value.__notes__[0]
    assert not process.lost


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("odd", r"Odd: ab \(the error itself cannot be pickled: TypeError"),
        ("unsayable", r"Unsayable: what it says \(the error itself cannot be pickled: TypeError: no way\)"),
        ("lambda", "what asked returned cannot be pickled"),
    ],
)
def test_what_cannot_travel_is_an_error_that_says_so(process: FunctionProcess, what: str, told: str) -> None:
    with pytest.raises((RuntimeError, TypeError), match=told):
        call(process, what)
    assert call(process, "tea") == ["tea", process.pid]


@pytest.mark.parametrize(("what", "death"), [("exit", "exit code 3"), ("kill", "signal SIGKILL, as where memory")])
def test_a_process_that_dies_says_how(process: FunctionProcess, what: str, death: str) -> None:
    with pytest.raises(BrokenExecutor, match=f"the process of asked has ended: {death}"):
        call(process, what)
    assert process.lost


def test_a_signal_without_a_name_has_its_number() -> None:
    assert _death(-40) == "signal 40"
    assert _death(-signal.SIGSEGV) == "signal SIGSEGV"


def test_it_is_ended_in_the_middle_of_a_call(process: FunctionProcess) -> None:
    timer = threading.Timer(0.05, process.kill)
    timer.start()
    with pytest.raises(BrokenExecutor):
        call(process, "hang")
    assert process.has_ended


def test_an_object_is_opened_and_closed_in_it(tmp_path: Path) -> None:
    owner = Opened(tmp_path / "log")
    process = FunctionProcess("ask")
    process.start(pickle.dumps(owner.ask))
    assert call(process, "tea") == [process.pid]
    process.dismiss()
    wait_until(lambda: process.has_ended, "the end of the process")
    process.release()
    assert owner.log.read_text().splitlines() == [f"open {process.pid}", f"close {process.pid}"]


def test_an_object_that_cannot_be_opened_is_reported(tmp_path: Path) -> None:
    process = FunctionProcess("ask")
    with pytest.raises(ConnectionError, match="nobody is there"):
        process.start(pickle.dumps(Opened(tmp_path / "log", fails=True).ask))
    process.release()
    assert process.has_ended


PARENT = """
import pickle, sys
from faults.pooled_functions import asked
from fluvial.runtime.process.function_process import FunctionProcess
process = FunctionProcess("asked")
process.start(pickle.dumps(asked))
print(process.pid, flush=True)
process.call(pickle.dumps((("hang",), {})))
"""


def test_it_ends_with_its_parent_also_within_a_call() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environment) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert is_alive(pid)
        parent.kill()
    wait_until(lambda: not is_alive(pid), "the end of the process")


CLOSED = """
import pickle, sys
from faults.pooled_functions import asked
from fluvial.runtime.process.function_process import FunctionProcess
process = FunctionProcess("asked")
process.start(pickle.dumps(asked))
print(process.call(pickle.dumps((("tea",), {})))[0], file=sys.stderr)
process.kill()
process.release()
"""


def test_it_needs_no_standard_output() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    words = ["sh", "-c", 'exec "$0" -c "$1" >&-', sys.executable, CLOSED]
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, env=environment, check=False)
    assert done.stderr == "tea\n"


SCRIPT = """
import sys
from fluvial.dsl import Pipeline, in_processes
from fluvial.runtime import run
from fluvial.runtime.systems import MemorySystem

assert "function_child" not in sys.argv[0]  # a script may read its arguments as it is loaded

class Item(str): ...

def twice(text: str) -> list[str]:
    return [Item(text + text)]

pipeline = Pipeline("script")
pipeline.stream("in", value=str).async_flat_map(in_processes(twice, processes=1), id="twice").send_to("out", value=str)

def main():
    streams = MemorySystem()
    streams.admin().create("in", 1)
    writing = streams.producer().begin()
    writing.append("in", 0, [(None, b"tea", 1, ())])
    writing.commit()
    print(run(pipeline, system=streams, until="end").written)

GUARD
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_the_script_of_the_pipeline_is_loaded_without_its_run(tmp_path: Path, guarded: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("GUARD", 'if __name__ == "__main__":\n    main()' if guarded else "main()"))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    if guarded:
        assert (done.stdout, done.stderr) == ("{'out': 1}\n", "")
    else:
        assert "a run is begun as the script is loaded in a process of in_processes" in done.stderr
        assert 'under if __name__ == "__main__":' in done.stderr


EXECUTOR = """
import asyncio
from fluvial.dsl import in_processes
from fluvial.runtime import KeyedExecutor

def twice(text: str) -> str:
    return text + text

async def main():
    async with KeyedExecutor(in_processes(twice, processes=1), on_result=lambda _, text: print(text)) as executor:
        await executor.submit("tea")

GUARD
"""


@pytest.mark.parametrize("guarded", [True, False])
def test_the_script_of_an_executor_is_loaded_without_it(tmp_path: Path, guarded: bool) -> None:
    script = tmp_path / "script.py"
    begin = 'if __name__ == "__main__":\n    asyncio.run(main())' if guarded else "asyncio.run(main())"
    script.write_text(EXECUTOR.replace("GUARD", begin))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment, check=False)
    if guarded:
        assert (done.stdout, done.stderr) == ("teatea\n", "")
    else:
        assert "in_processes starts processes as the script is loaded in one of them" in done.stderr


def test_a_module_that_is_known_by_its_file_alone_is_found(tmp_path: Path) -> None:
    """`json` is a module of Python's: the file has another name in the run."""
    (tmp_path / "json.py").write_text(SCRIPT.replace("GUARD", ""))
    (tmp_path / "in.jsonl").write_text("tea\n")
    command = ["run", "json.py", "--input", "in=in.jsonl", "--output", "out=-"]
    done = subprocess.run(
        [Path(sys.executable).with_name("fluvial"), *command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert "teatea" in done.stdout, done.stderr
