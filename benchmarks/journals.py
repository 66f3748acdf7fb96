"""What a journal of calls costs: calls a second with and without one, on a log in a folder of its own.

Run as `python -m benchmarks.journals`."""

import asyncio
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from fluvial.dsl import Pipeline
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem

CALLS = 20_000
IN_FLIGHT = 200
SECONDS = 0.005
"""How long the service takes for a call."""
ROUNDS = 3


async def ask(item: str) -> list[str]:
    """A service that answers with 200 characters."""
    await asyncio.sleep(SECONDS)
    return [item * 20]


def asking(*, journal: bool) -> Pipeline:
    """Each message is a call."""
    pipeline = Pipeline("asking")
    items = pipeline.stream("items", value=str)
    items.async_flat_map(ask, id="ask", max_in_flight=IN_FLIGHT, order="none", journal=journal).send_to("out")
    return pipeline


def calls_a_second(*, journal: bool, fsync: bool) -> float:
    """The calls of a run by its seconds."""
    with TemporaryDirectory() as folder:
        system = LogSystem(Path(folder), fsync=fsync)
        system.admin().create("items", 1)
        writing = system.producer().begin()
        writing.append("items", 0, [(None, b"%010d" % number, 0, ()) for number in range(CALLS)])
        writing.commit()
        began = time.perf_counter()
        run(asking(journal=journal), system=system, until="end")
        return CALLS / (time.perf_counter() - began)


def main() -> None:
    """Print the best of some rounds of each kind."""
    for fsync in (False, True):
        for journal in (False, True):
            best = max(calls_a_second(journal=journal, fsync=fsync) for _ in range(ROUNDS))
            name = f"{'with' if journal else 'without'} a journal, {'with' if fsync else 'without'} fsync"
            sys.stdout.write(f"{name}: {best:,.0f} calls a second\n")


if __name__ == "__main__":
    main()
