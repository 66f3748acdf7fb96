"""Where the time of a contender goes."""

import pstats
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.cell import measure
from benchmarks.contenders import Contender
from benchmarks.events import events
from benchmarks.job import Job
from benchmarks.oracle import expected
from benchmarks.rounds import Size
from benchmarks.topics import Tell, Topics, load
from benchmarks.workloads import Workload

_LINES = 25


def profile(contender: Contender, workload: Workload, size: Size, topics: Topics, tell: Tell) -> None:
    """Run a contender under cProfile, and print the functions that took the longest, waiting included.

    Only what its first process does in its main thread is seen; calls look dearer under it than they are.
    """
    count = workload.events(size.messages)
    source = load(topics, count, tell)
    with tempfile.NamedTemporaryFile(suffix=".prof") as file:
        found = measure(
            replace(contender, command=lambda job: _profiled(contender, job, file.name)),
            workload,
            topics,
            source,
            count,
            expected(workload.name, events(count)),
            size.limit,
        )
        tell(f"{workload.name}: {found.speed:,.0f}/s under the profiler")
        pstats.Stats(file.name).sort_stats("tottime").print_stats(_LINES)


def _profiled(contender: Contender, job: Job, file: str) -> list[str]:
    command = list(contender.command(job))
    if Path(command[0]) == Path(sys.executable):
        command = command[1:]
    return [sys.executable, "-m", "cProfile", "-o", file, *command]
