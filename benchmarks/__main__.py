"""`python -m benchmarks`: measure the engines beside a loop written by hand, print the figures, and save them."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from benchmarks.contenders import BASELINE, available
from benchmarks.profiling import profile
from benchmarks.report import results, save, table
from benchmarks.rounds import compare
from benchmarks.workloads import WORKLOADS

LATEST = Path(__file__).parent / "results" / "latest.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 0 if every output was correct."""
    given = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    tell = Console(stderr=True, highlight=False).print
    chosen = [WORKLOADS[name] for name in given.workload or WORKLOADS]
    if given.profile:
        for workload in chosen:
            profile(given.profile, workload, given.messages, tell)
        return 0
    contenders = list(dict.fromkeys([BASELINE, *(given.engine or available())]))
    runs = [run for workload in chosen for run in compare(workload, contenders, given.messages, given.rounds, tell)]
    found = results(runs, given.messages, given.rounds)
    save(found, given.output)
    console.print(table(runs))
    console.print(f"{given.messages:,} messages, median of {given.rounds}, commit {found.commit}")
    console.print(f"{found.machine['processor']}, {found.machine['cores']} cores; Python {found.versions['python']}")
    return 0 if all(run.output_correct for run in runs) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--messages", type=int, default=1_000_000, metavar="N", help="size of the input")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="runs of each, of which the median counts")
    parser.add_argument("--workload", action="append", choices=list(WORKLOADS), help="only this one; repeat for more")
    parser.add_argument("--engine", action="append", choices=available(), help="only this one; repeat for more")
    parser.add_argument("--output", type=Path, default=LATEST, metavar="FILE", help="where to save the figures")
    parser.add_argument("--profile", choices=available(), help="tell where the time of this one goes, in place of that")
    return parser


if __name__ == "__main__":
    sys.exit(main())
