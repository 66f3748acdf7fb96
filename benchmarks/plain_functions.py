"""What a call of a plain function costs in threads and in processes: microseconds of processor time, and from its begin
to its end.

Run as `python -m benchmarks.plain_functions`. Calls are made 8 at a time in one event loop."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from fluvial.dsl import in_processes, in_threads
from fluvial.runtime.kernel.calls.cancellation import CallLoop

CALLS = 5_000
AT_ONCE = 8
ROUNDS = 5
LARGE = "x" * 100_000


def given(value: Any) -> list[Any]:
    """Computes nothing."""
    return [value]


async def awaited(value: Any) -> list[Any]:
    """The same as an asynchronous function."""
    return [value]


async def cost(fn: Callable[[Any], Awaitable[Any]], value: Any) -> tuple[float, float]:
    """The processor time of this process, and the time from begin to end, of one call in microseconds."""
    await fn(value)
    numbers = iter(range(CALLS))

    async def calls() -> None:
        for _ in numbers:
            await fn(value)

    began, computed = time.perf_counter(), time.process_time()
    await asyncio.gather(*(calls() for _ in range(AT_ONCE)))
    used, took = time.process_time() - computed, time.perf_counter() - began
    return used / CALLS * 1e6, took / CALLS * 1e6


def main() -> None:
    """Print the least of some rounds of each kind."""
    threads, processes = in_threads(given, threads=AT_ONCE), in_processes(given, processes=2)
    loop = CallLoop()
    loop.begin()
    try:
        for name, fn, value in (
            ("an async function", awaited, 1),
            ("in threads", threads, 1),
            ("in processes", processes, 1),
            ("in processes, 100 kB there and back", processes, LARGE),
        ):
            rounds = [loop.run(cost(fn, value)) for _ in range(ROUNDS)]
            used, took = (min(one[place] for one in rounds) for place in (0, 1))
            sys.stdout.write(f"{name}: {used:,.1f} µs of processor time, a call each {took:,.0f} µs\n")
    finally:
        loop.end()


if __name__ == "__main__":
    main()
