"""One run of a pipeline with a large state, in a process that may take only so much memory.

`python -m benchmarks.large_run KIND ADDRESS SOURCE OUTPUT FOLDER MEGABYTES MESSAGES`: with 0 messages up to the end of
the input, else until so many are read, with all windows open. Prints the report as JSON.
"""

import os
import resource
import signal
import sys

import msgspec

from benchmarks.large_pipelines import PIPELINES
from fluvial.planner import Settings
from fluvial.runtime import Progress, run
from fluvial.runtime.cli.display import Rate, one_line


def main(kind: str, address: str, source: str, output: str, folder: str, megabytes: int, messages: int) -> None:
    """Run it."""
    # Of all that the process may write to, not only of what lies in memory at a time.
    resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))
    rate = Rate()

    def on_progress(progress: Progress) -> None:
        print(one_line(progress, rate.of(progress)), file=sys.stderr, flush=True)
        if messages and progress.phase == "running" and progress.read >= messages:
            os.kill(os.getpid(), signal.SIGTERM)

    report = run(
        PIPELINES[kind](source, output),
        system=f"kafka://{address}",
        until="stopped" if messages else "end",
        settings=Settings(state_dir=folder),
        progress=on_progress,
    )
    sys.stdout.buffer.write(msgspec.json.encode(report))


if __name__ == "__main__":
    kind, address, source, output, folder, megabytes, messages = sys.argv[1:]
    main(kind, address, source, output, folder, int(megabytes), int(messages))
