"""A container on a Spark of this process, until the run is stopped; it says so once it has read something."""

import sys

from engines.spark_until_stopped import copying, say
from fluvial.runtime import run

if __name__ == "__main__":
    report = run(copying(), system=sys.argv[1], progress=say, hosts="local[2]", containers=1)
    print("wrote", report.written, flush=True)
