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
FAILED = Measured(0, 0, "")
Tell = Callable[[str], None]


class Run(Struct, frozen=True, kw_only=True):
    """Medians of a contender's runs; `ratio` is that of its speed to the loop's in the same round, `ratio_to_pyspark`
    to that of PySpark by hand. The peak of memory is that of all its processes."""

    engine: str
    workload: str
    messages_per_second: int
    ratio: float
    peak_rss_mb: int
    output_correct: bool
    ratio_to_pyspark: float | None = None


def compare(workload: Workload, contenders: Sequence[str], messages: int, rounds: int, tell: Tell) -> list[Run]:
    """Measure the contenders, the loop among them, on one workload."""
    with tempfile.TemporaryDirectory(prefix="fluvial-bench-") as folder:
        made = Path(folder, "input")
        make_input(workload, messages, made, tell)
        runs: dict[str, list[Measured]] = {name: [] for name in contenders}
        for number in range(rounds):
            for name in contenders:
                with _copied(made, Path(folder, "log")) as log:
                    found = _alone(name, workload, log)
                runs[name].append(found)
                told = f"{messages / found.seconds:,.0f}/s" if found.seconds else "failed"
                tell(f"{workload.name}, round {number + 1}: {name} {told}")
    return list(_summed_up(workload, runs, messages))


def _alone(name: str, workload: Workload, log: Path) -> Measured:
    """A run in a process of its own; one that fails takes no time at all."""
    command = [sys.executable, "-m", "benchmarks.one", name, workload.name, str(log)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False)
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Measured) if not done.returncode else FAILED


@contextmanager
def _copied(made: Path, log: Path) -> Iterator[Path]:
    """A log with the same input. Segments are never changed, so that links to them do."""
    shutil.copytree(made, log, copy_function=_link_segments)
    yield log
    shutil.rmtree(log)


def _link_segments(source: str, target: str) -> None:
    (os.link if source.endswith(".seg") else shutil.copy2)(source, target)


def _summed_up(workload: Workload, runs: dict[str, list[Measured]], messages: int) -> Iterator[Run]:
    base, by_hand = runs[BASELINE], runs.get("pyspark", [])
    for name, found in runs.items():
        failed = not all(run.seconds for run in found)
        speeds = [0 if failed else messages / run.seconds for run in found]
        yield Run(
            engine=name,
            workload=workload.name,
            messages_per_second=round(median(speeds)),
            ratio=_ratio(base, found),
            ratio_to_pyspark=_ratio(by_hand, found) if by_hand and name == "spark" else None,
            peak_rss_mb=round(median(run.peak_mb for run in found)),
            output_correct={run.digest for run in found} == {base[0].digest},
        )


def _ratio(base: Sequence[Measured], found: Sequence[Measured]) -> float:
    """How fast something is beside something else, round by round; 0 where it failed."""
    pairs = zip(base, found, strict=True)
    return round(median(of.seconds / run.seconds if run.seconds else 0.0 for of, run in pairs), 3)
