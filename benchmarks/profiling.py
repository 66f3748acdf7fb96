"""Where the time of a contender goes."""

import pstats
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from benchmarks.cell import measure
from benchmarks.contenders import Contender
from benchmarks.job import Job
from benchmarks.rounds import Size, prepared
from benchmarks.topics import Tell, Topics
from benchmarks.workloads import Workload

_LINES = 25


def profile(contender: Contender, workload: Workload, size: Size, topics: Topics, tell: Tell) -> None:
    """Run a contender under cProfile, and print the functions that took the longest, waiting included.

    Only what its first process does in its main thread is seen; calls look dearer under it than they are.
    """
    cell_of = prepared(workload, size, topics, tell)
    with tempfile.NamedTemporaryFile(suffix=".prof") as file:
        watched = replace(contender, command=lambda job: _profiled(contender, job, file.name))
        found = measure(cell_of(watched), topics)
        tell(f"{workload.name}: {found.speed:,.0f}/s under the profiler")
        pstats.Stats(file.name).sort_stats("tottime").print_stats(_LINES)


def _profiled(contender: Contender, job: Job, file: str) -> list[str]:
    command = list(contender.command(job))
    if Path(command[0]) == Path(sys.executable):
        command = command[1:]
    return [sys.executable, "-m", "cProfile", "-o", file, *command]
