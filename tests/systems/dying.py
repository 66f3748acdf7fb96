"""A script, not a test: kills a pipeline of two steps at every call that touches the disk, and checks what is left.

It runs by itself, in a process without threads, because it forks: one child for each call, which does half of what
the call should do and then kills itself. The parent resumes the pipeline as an engine would, and compares.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

LAST = 5
calls_left = sys.maxsize


def dying(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call, which ends the process instead once `calls_left` is used up."""

    def counted(*args: Any, **named: Any) -> Any:
        global calls_left
        calls_left -= 1
        if calls_left < 0:
            if call is pwrite:
                pwrite(args[0], args[1][: len(args[1]) // 2], args[2])
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*args, **named)

    return counted


pwrite = os.pwrite
for name in ("open", "pwrite", "ftruncate", "fdatasync", "fsync", "replace", "mkdir"):
    if hasattr(os, name):
        setattr(os, name, dying(getattr(os, name)))

from fluvial.runtime.systems.log import LogSystem  # noqa: E402  the calls are replaced before they are imported


def work(home: Path) -> None:
    """Go on from the last checkpoint: each step writes its number to both partitions, with the checkpoint."""
    log = LogSystem(home / "log", compact_bytes=300, segment_bytes=150)
    log.admin().create("numbers", 2)
    producer = log.producer()
    kept = home / "token"
    if kept.exists():
        producer.publish(kept.read_bytes())
    done = int(log.admin().checkpoints("work").get("task", b"0"))
    for number in range(done, LAST):
        writing = producer.begin()
        for partition in (0, 1):
            writing.append("numbers", partition, [(None, b"%d" % number, number, ())])
        checkpoint = {"task": b"%d" % (number + 1)}
        if number % 2:
            writing.commit("work", checkpoint)
        else:
            (home / "token.new").write_bytes(writing.prepare("work", checkpoint))
            os.replace(home / "token.new", kept)
            producer.publish(kept.read_bytes())


def check(home: Path) -> int:
    """Both partitions and the checkpoint agree; how far the work has come."""
    log = LogSystem(home / "log")
    if "numbers" not in log.admin().streams():
        return 0
    left, right = log.admin().ends("numbers")
    assert left == right == int(log.admin().checkpoints("work").get("task", b"0"))
    consumer = log.consumer()
    consumer.assign({("numbers", 0): 0, ("numbers", 1): 0})
    for batch in consumer.poll():
        assert [record[2] for record in batch.records] == list(range(left))
    return left


def dies_after(calls: int, home: Path) -> bool:
    """Work in a child that is killed at a call; whether it came to that."""
    global calls_left
    child = os.fork()
    if not child:
        calls_left = calls
        work(home)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def main() -> None:
    calls, reached = 0, set()
    died = True
    while died:
        with tempfile.TemporaryDirectory() as folder:
            died = dies_after(calls, Path(folder))
            reached.add(check(Path(folder)))
            work(Path(folder))
            assert check(Path(folder)) == LAST
        calls += 1
    assert reached == set(range(LAST + 1))
    print(f"{calls} deaths")


if __name__ == "__main__":
    main()
