"""How much memory a contender has needed, that of the processes it has started included."""

import os
import resource
from collections.abc import Iterator
from pathlib import Path


def peak_mb() -> int:
    """The peaks of this process and of those below it that are still there, added up; of this one alone where there is
    no /proc."""
    peaks = [_peak_kb(process) for process in _tree(os.getpid())]
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round((sum(peaks) or own) / 1024)


def _tree(root: int) -> Iterator[int]:
    yield root
    for file in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = file.read_text().split()
        except OSError:  # it has ended
            continue
        for child in children:
            yield from _tree(int(child))


def _peak_kb(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM:")), 0)
