"""Processes of plain functions end with their run, however that ends, and say nothing of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from waiting import wait_until

pytestmark = pytest.mark.slow

PIPELINE = """
import os, threading
from fluvial.dsl import Pipeline, in_processes

def stuck(text: str) -> list[str]:
    open(f"pid-{os.getpid()}", "w").close()
    threading.Event().wait(600)
    return [text]

pipeline = Pipeline("stuck")
pipeline.stream("in", value=str).async_flat_map(in_processes(stuck, processes=2), id="call").send_to("out")
"""
CODES = {signal.SIGINT: 0, signal.SIGTERM: 0, signal.SIGKILL: -signal.SIGKILL}


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", CODES)
def test_processes_end_with_their_run(tmp_path: Path, number: signal.Signals) -> None:
    """A signal to the group of the run, as a terminal sends it, or to the run alone where nothing else reaches it."""
    (tmp_path / "stuck.py").write_text(PIPELINE)
    (tmp_path / "in.jsonl").write_text("a\nb\n")
    fluvial = str(Path(sys.executable).with_name("fluvial"))
    command = [fluvial, "run", "stuck.py", "--input", "in=in.jsonl", "--output", "out=-"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as run:
        wait_until(lambda: len(list(tmp_path.glob("pid-*"))) == 2, "two calls")
        called = [int(path.name.removeprefix("pid-")) for path in tmp_path.glob("pid-*")]
        assert all(map(is_alive, called))
        os.killpg(run.pid, number)
        _, told = run.communicate(timeout=60)
    wait_until(lambda: not any(map(is_alive, called)), "the end of the processes")
    assert run.returncode == CODES[number]
    assert "Traceback" not in told, told
    assert "BrokenExecutor" not in told, told
