"""One run of one contender on one workload, from its first message to its last output."""

import time
from dataclasses import dataclass
from typing import Literal

import msgspec
from msgspec import Struct

from benchmarks.contenders import Contender
from benchmarks.oracle import Table, Verdict, judge
from benchmarks.process import Running, running
from benchmarks.sampling import Noise
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


@dataclass(frozen=True, slots=True)
class Cell:
    """A contender and its workload, over the topics `sources` with `count` messages together; what is `wanted` of it;
    the seconds from its first message after which it is stopped."""

    contender: Contender
    workload: Workload
    sources: tuple[str, ...]
    count: int
    wanted: Table
    limit: float


def measure(cell: Cell, topics: Topics) -> Measured:
    """Run a contender once."""
    noise = Noise()
    with running(cell.contender, cell.workload.name, topics, cell.sources) as process:
        ending = _wait(process, topics, None if cell.contender.ends else len(cell.wanted), cell.limit)
        stopped = time.time()
        process.sampler.stop()
        others = noise.share(process.sampler)
        found = _found(cell, process, topics, ending, stopped)
    return msgspec.structs.replace(found, noise=round(others, 2))


def _wait(process: Running, topics: Topics, wanted: int | None, limit: float) -> Ending:
    """Until it has ended by itself, or its start takes too long, or what follows; one that never ends is done when no
    more comes than the outputs that are `wanted`."""
    outputs, changed, looked = 0, time.monotonic(), 0.0
    while time.time() - (process.first or process.spawned) < limit:
        if (code := process.look()) is not None:
            return "failed" if code else "done"
        if wanted is not None and time.monotonic() - looked > 5 * _LOOK:
            looked, found = time.monotonic(), sum(topics.ends(process.job.output))
            if found != outputs:
                outputs, changed = found, looked
            whole = outputs >= wanted
            if outputs and looked - changed > (_QUIET if whole else _SILENT):
                return "done" if whole else "limit"
        time.sleep(_LOOK)
    return "limit"


def _found(cell: Cell, process: Running, topics: Topics, ending: Ending, stopped: float) -> Measured:
    output = list(topics.read(process.job.output))
    verdict = judge(cell.workload.name, cell.wanted, (value for value, _ in output))
    first = process.first or process.spawned
    last = max((at for _, at in output), default=0) / 1000
    if ending == "limit" and verdict.correct:
        ending = "done"
    cut_off = ending == "limit"
    return Measured(
        ending=ending,
        messages=_progress(cell, process, len(output)) if cut_off else cell.count,
        seconds=round(max((stopped if cut_off else last) - first, 0.0), 3),
        startup_seconds=round(first - process.spawned, 2),
        cpu_seconds=round(process.sampler.cpu, 2),
        peak_rss_mb=round(process.sampler.peak / 1e6),
        verdict=verdict,
        problem="" if ending == "done" and verdict.correct else process.tail(),
    )


def _progress(cell: Cell, process: Running, outputs: int) -> int:
    """How far it came: as it has noted itself, or as its output tells where each message has one, or may have."""
    by_output = {"W1": outputs * cell.count // max(len(cell.wanted), 1), "W3": outputs, "W5": outputs}
    return min(cell.count, max(process.notes().progress, by_output.get(cell.workload.name, 0)))
