"""Rounds of runs: each contender once a round, so that a busy machine is busy for all of them."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import msgspec
from msgspec import Struct

from benchmarks.contenders import BASELINE, Measured
from benchmarks.workloads import Workload, make_input

ROOT = Path(__file__).parents[1]
Tell = Callable[[str], None]


class Run(Struct, frozen=True, kw_only=True):
    """Medians of a contender's runs; `ratio` is that of its speed to the loop's in the same round. The peak is of its
    largest process."""

    engine: str
    workload: str
    messages_per_second: int
    ratio: float
    peak_rss_mb: int
    output_correct: bool


def compare(workload: Workload, contenders: Sequence[str], messages: int, rounds: int, tell: Tell) -> list[Run]:
    """Measure the contenders, the loop among them, on one workload."""
    with tempfile.TemporaryDirectory(prefix="fluvial-bench-") as folder:
        made = Path(folder, "input")
        make_input(workload, messages, made, tell)
        runs: dict[str, list[tuple[Measured, int]]] = {name: [] for name in contenders}
        for number in range(rounds):
            for name in contenders:
                with _copied(made, Path(folder, "log")) as log:
                    found = _alone(name, workload, log)
                runs[name].append(found)
                tell(f"{workload.name}, round {number + 1}: {name} {messages / found[0].seconds:,.0f}/s")
    return list(_summed_up(workload, runs, messages))


def _alone(name: str, workload: Workload, log: Path) -> tuple[Measured, int]:
    """A run in a process of its own, and that one's peak of memory in KB."""
    command = [sys.executable, "-m", "benchmarks.one", name, workload.name, str(log)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        told = process.stdout.read()
        # Unlike `wait` it tells what this one process used, and not the largest of all so far.
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return msgspec.json.decode(told.splitlines()[-1], type=Measured), used.ru_maxrss


@contextmanager
def _copied(made: Path, log: Path) -> Iterator[Path]:
    """A log with the same input. Segments are never changed, so that links to them do."""
    shutil.copytree(made, log, copy_function=_link_segments)
    yield log
    shutil.rmtree(log)


def _link_segments(source: str, target: str) -> None:
    (os.link if source.endswith(".seg") else shutil.copy2)(source, target)


def _summed_up(workload: Workload, runs: dict[str, list[tuple[Measured, int]]], messages: int) -> Iterator[Run]:
    base = [measured for measured, _ in runs[BASELINE]]
    for name, found in runs.items():
        seconds = [measured.seconds for measured, _ in found]
        yield Run(
            engine=name,
            workload=workload.name,
            messages_per_second=round(messages / median(seconds)),
            ratio=round(median(of_loop.seconds / taken for of_loop, taken in zip(base, seconds, strict=True)), 3),
            peak_rss_mb=round(median(peak for _, peak in found) / 1024),
            output_correct={measured.digest for measured, _ in found} == {base[0].digest},
        )
