"""One run of one contender on one workload, from its first message to its last output."""

import os
import time
from typing import Literal

from msgspec import Struct

from benchmarks.contenders import Contender
from benchmarks.oracle import Table, Verdict, judge
from benchmarks.process import Running, running
from benchmarks.sampling import machine_seconds, use_of
from benchmarks.topics import Topics
from benchmarks.workloads import Workload

Ending = Literal["done", "limit", "failed"]

_LOOK = 0.05
_QUIET = 4.0
"""Seconds without new output after which a contender that does not end by itself is done, if its output is whole."""

_SILENT = 20.0
"""Seconds without new output after which one is given up whose output is not whole."""


class Measured(Struct, frozen=True, kw_only=True):
    """What was measured. `messages` is how many it has dealt with, fewer than there are after a time `limit`;
    `seconds` are from the first message to the last output, `startup_seconds` before them. `noise` is the share of the
    machine that others used meanwhile."""

    ending: Ending
    messages: int
    seconds: float = 0.0
    startup_seconds: float = 0.0
    cpu_seconds: float = 0.0
    peak_rss_mb: int = 0
    noise: float = 0.0
    verdict: Verdict | None = None
    problem: str = ""

    @property
    def speed(self) -> float:
        """Messages per second; 0 where it failed."""
        return self.messages / self.seconds if self.ending != "failed" and self.seconds > 0 else 0.0


def measure(
    contender: Contender, workload: Workload, topics: Topics, source: str, count: int, wanted: Table, limit: float
) -> Measured:
    """Run a contender over a topic that holds so many events."""
    busy, ours, begun = machine_seconds(), sum(use_of(os.getpid()).cpu.values()), time.monotonic()
    with running(contender, workload.name, topics, source) as process:
        code = _wait(process, topics, len(wanted), limit)
        stopped = time.time()
        process.sampler.stop()
        others = machine_seconds() - busy - (sum(use_of(os.getpid()).cpu.values()) - ours)
        noise = max(0.0, others / (time.monotonic() - begun) / (os.cpu_count() or 1))
        return _told(process, topics, workload.name, count, wanted, code, stopped, noise)


def _wait(process: Running, topics: Topics, wanted: int, limit: float) -> Ending:
    """Until it has ended by itself, or there is nothing more to come, or the time is over."""
    deadline, outputs, changed = time.monotonic() + limit, 0, time.monotonic()
    looked = 0.0
    while (now := time.monotonic()) < deadline:
        if (code := process.look()) is not None:
            return "failed" if code else "done"
        if now - looked > 5 * _LOOK:
            looked, found = now, sum(topics.ends(process.job.output))
            if found != outputs:
                outputs, changed = found, now
            if outputs and now - changed > (_QUIET if outputs >= wanted else _SILENT):
                return "done"
        time.sleep(_LOOK)
    return "limit"


def _told(
    process: Running,
    topics: Topics,
    workload: str,
    count: int,
    wanted: Table,
    ending: Ending,
    stopped: float,
    noise: float,
) -> Measured:
    values: list[bytes] = []
    last = 0
    for value, at in topics.read(process.job.output):
        values.append(value)
        last = max(last, at)
    verdict = judge(workload, wanted, values)
    first = process.first or process.spawned
    until = stopped if ending == "limit" else last / 1000
    whole = verdict.correct or ending != "limit"
    return Measured(
        ending="done" if ending == "limit" and verdict.correct else ending,
        messages=count if whole else _progress(process, workload, len(values), len(wanted), count),
        seconds=round(max((last / 1000 if whole else until) - first, 0.0), 3),
        startup_seconds=round(first - process.spawned, 2),
        cpu_seconds=round(process.sampler.cpu, 2),
        peak_rss_mb=round(process.sampler.peak / 1e6),
        noise=round(noise, 2),
        verdict=verdict,
        problem="" if ending == "done" and verdict.correct else process.tail(),
    )


def _progress(process: Running, workload: str, outputs: int, wanted: int, count: int) -> int:
    """How far it came: as it has noted itself, or as its output tells where each message has one, or may have."""
    by_output = {"W1": outputs * count // max(wanted, 1), "W3": outputs, "W5": outputs}
    return min(count, max(process.notes().progress, by_output.get(workload, 0)))
