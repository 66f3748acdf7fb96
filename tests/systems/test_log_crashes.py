"""What is left of a log when a process is killed."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from fluvial.runtime.systems.log import LogSystem

WRITER = """
import sys
from fluvial.runtime.systems.log import LogSystem
log = LogSystem(sys.argv[1], fsync=False, compact_bytes=2_000, segment_bytes=5_000)
log.admin().create("numbers", 2)
producer = log.producer()
number = int(log.admin().checkpoints("work").get("task", b"0"))
while True:
    writing = producer.begin()
    for partition in (0, 1):
        writing.append("numbers", partition, [(None, b"%d" % number, number, ())])
    number += 1
    writing.commit("work", {"task": b"%d" % number})
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_death_at_any_call_loses_and_repeats_nothing() -> None:
    script = Path(__file__).with_name("dying.py")
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    assert int(result.stdout.split()[0]) > 50


@pytest.mark.slow
def test_kill_9_in_the_middle_of_commits_keeps_all_that_were_done(tmp_path: Path) -> None:
    for commits in (1, 100, 250):
        done = kill_after(tmp_path, commits)
        log = LogSystem(tmp_path)
        ends = log.admin().ends("numbers")
        assert ends[0] == ends[1] == int(log.admin().checkpoints("work")["task"])
        assert ends[0] >= done
        consumer = log.consumer(max_records=1_000_000)
        consumer.assign({("numbers", 0): 0, ("numbers", 1): 0})
        for batch in consumer.poll():
            assert [record[2] for record in batch.records] == list(range(len(batch.records)))


def kill_after(home: Path, commits: int) -> int:
    """Kill a writer after some commits; the last number that it said was done."""
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(home)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    with writer, writer.stdout:
        done = [writer.stdout.readline() for _ in range(commits)]
        writer.send_signal(signal.SIGKILL)
    return int(done[-1])
