"""Refuses a share of branches that tests take below a number of percent: `make coverage`.

What coverage itself refuses is a share of lines and branches together, which many lines without a branch raise. The
arguments are a report that `coverage json` wrote, and the least share.
"""

import json
import sys
from pathlib import Path


def main(report: Path, least: float) -> int:
    """Tell the share; 1 if it is below the least one."""
    totals = json.loads(report.read_text())["totals"]
    taken, all_there_are = totals["covered_branches"], totals["num_branches"]
    share = 100 * taken / all_there_are
    said = f"branches alone: {taken} of {all_there_are} are taken, {share:.2f} %"
    print(said if share >= least else f"{said}; less than {least:g} %")
    return int(share < least)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
