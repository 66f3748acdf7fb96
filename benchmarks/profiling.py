"""Where the time of a contender goes."""

import cProfile
import pstats
import tempfile
from pathlib import Path

from benchmarks.contenders import CONTENDERS
from benchmarks.rounds import Tell
from benchmarks.workloads import Workload, make_input

LINES = 25


def profile(name: str, workload: Workload, messages: int, tell: Tell) -> None:
    """Run a contender under cProfile and print its dearest functions. Calls look dearer under it than they are."""
    with tempfile.TemporaryDirectory(prefix="fluvial-bench-") as folder:
        make_input(workload, messages, Path(folder), tell)
        profiler = cProfile.Profile()
        profiler.runcall(CONTENDERS[name], workload, Path(folder))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(LINES)
