"""Several processes that write and read one log at once."""

import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from fluvial.runtime.systems.log import LogSystem

COMMITS = 200

WRITER = """
import sys
from fluvial.runtime.systems.log import LogSystem
directory, name, commits = sys.argv[1], sys.argv[2].encode(), int(sys.argv[3])
producer = LogSystem(directory, fsync=False, compact_bytes=3_000, segment_bytes=2_000).producer()
print("ready", flush=True)
sys.stdin.readline()
for number in range(commits):
    writing = producer.begin()
    for partition in (0, 1):
        writing.append("numbers", partition, [(name, b"", number, ())])
    if number % 3:
        writing.commit()
    else:
        producer.publish(writing.prepare("", {}))
"""


def start(home: Path, name: str) -> subprocess.Popen[str]:
    """A writer that is ready, and begins when its input is closed."""
    command = [sys.executable, "-c", WRITER, str(home), name, str(COMMITS)]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


@pytest.mark.slow
def test_two_processes_write_while_a_third_reads(tmp_path: Path) -> None:
    log = LogSystem(tmp_path, fsync=False)
    log.admin().create("numbers", 2)
    writers = [start(tmp_path, name) for name in ("ada", "bob")]
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.close()
    consumer = log.consumer()
    consumer.assign({("numbers", 0): 0, ("numbers", 1): 0})
    seen: dict[tuple[int, bytes | None], list[int]] = defaultdict(list)
    left = 2 * 2 * COMMITS
    while left:
        batches = consumer.poll(timeout=60)
        assert batches, "the writers are stuck"
        for batch in batches:
            left -= len(batch.records)
            for key, _, number, _ in batch.records:
                seen[batch.partition, key].append(number)
    for writer in writers:
        with writer:
            assert writer.wait() == 0
    assert seen == {(partition, name): list(range(COMMITS)) for partition in (0, 1) for name in (b"ada", b"bob")}
