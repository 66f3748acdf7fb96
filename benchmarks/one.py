"""One run of one contender in a process of its own: `python -m benchmarks.one CONTENDER WORKLOAD FOLDER`."""

import sys
from pathlib import Path

import msgspec

from benchmarks.contenders import measure
from benchmarks.workloads import WORKLOADS

if __name__ == "__main__":
    contender, workload, folder = sys.argv[1:]
    print(msgspec.json.encode(measure(contender, WORKLOADS[workload], Path(folder))).decode())
