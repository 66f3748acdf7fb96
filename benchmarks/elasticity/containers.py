"""One partition, one and two containers: how many times as many messages per second two process."""

import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from uuid import uuid4
from zlib import crc32

from msgspec import Struct

from benchmarks.elasticity.goals import Judged, median_goal
from benchmarks.elasticity.programs import program, tell
from benchmarks.job import Job
from benchmarks.process import Running
from benchmarks.results import circumstances
from benchmarks.sampling import Noise
from benchmarks.topics import Topics
from fluvial.runtime.systems import open_system
from fluvial.runtime.systems.contract import System
from fluvial.runtime.systems.reads import read_to_ends

GOALS = {"log": 1.8, "kafka": 1.6}
_CONTAINERS = 2
_KEYS = 500
"""Of each key bucket."""
_BATCH = 10_000
_LIMIT = 600.0
_LOOK = 0.1


class Busy(Struct, frozen=True, kw_only=True):
    """A run to the end: messages per second in the time in which all key buckets had output, so that neither the start
    of a container is in it, nor what is left for one once the other is done."""

    system: str
    containers: int
    messages_per_second: float
    noise: float
    problem: str = ""


class Containers(Judged, frozen=True, kw_only=True):
    """What came of it: pairs of runs, one with one container and one with two, of `messages` each."""

    messages: int
    runs: list[Busy]


def measured(topics: Topics, *, small: bool) -> Containers:
    """Run pairs, in turns, on the log and on Kafka."""
    messages, pairs = (2_000, 1) if small else (60_000, 5)
    runs: list[Busy] = []
    with tempfile.TemporaryDirectory(prefix="fluvial-bench-") as folder:
        urls = {"log": f"log:{folder}/log", "kafka": f"kafka://{topics.address}"}
        source = f"busy-{uuid4().hex[:8]}"
        before = topics.names()
        try:
            topics.create(source, 1)
            open_system(urls["log"]).admin().create(source, 1)
            for url in urls.values():
                _load(open_system(url), source, messages)
            for _ in range(pairs):
                for name, url in urls.items():
                    runs += (_run(name, url, source, containers, messages) for containers in (1, _CONTAINERS))
        finally:
            topics.remove(topics.names() - before)
    return judged(messages, runs, small=small)


def judged(messages: int, runs: list[Busy], *, small: bool) -> Containers:
    """What pairs of runs come to."""
    goals = [
        median_goal(f"messages/s with two containers, of those with one, {name}", "at least", limit, found)
        for name, limit in GOALS.items()
        if (found := list(ratios(runs, name)))
    ]
    problem = "; ".join(filter(None, (run.problem for run in runs)))
    noise = max(run.noise for run in runs)
    return Containers(
        **circumstances(),
        small=small,
        noise=noise,
        output_correct=not problem,
        problem=problem,
        goals=goals,
        messages=messages,
        runs=runs,
    )


def ratios(runs: list[Busy], system: str) -> Iterator[float]:
    """For each pair of runs on a system how many times as many messages per second two containers have processed."""
    speeds = [
        [run.messages_per_second for run in runs if run.system == system and run.containers == containers]
        for containers in (1, _CONTAINERS)
    ]
    for one, two in zip(*speeds, strict=True):
        yield round(two / one, 3) if one else 0.0


def steady(done: Sequence[tuple[int, int]]) -> float:
    """Messages per second, of messages with their key buckets and times in ns, in the time in which all buckets had
    some.

    >>> steady([(0, 0), (0, 500_000_000), (1, 500_000_000), (0, 10**9), (1, 10**9), (1, 2 * 10**9)])
    4.0
    """
    times: dict[int, list[int]] = {}
    for bucket, at in done:
        times.setdefault(bucket, []).append(at)
    first, last = max(map(min, times.values()), default=0), min(map(max, times.values()), default=0)
    return sum(first < at <= last for _, at in done) / (last - first) * 1e9 if last > first else 0.0


def even_keys() -> list[bytes]:
    """Keys of two key buckets in turn, so that both have as much work, and a message's number tells its bucket."""
    by_bucket: tuple[list[bytes], list[bytes]] = ([], [])
    number = 0
    while min(map(len, by_bucket)) < _KEYS:
        key = b"user-%d" % number
        by_bucket[crc32(key) % len(by_bucket)].append(key)
        number += 1
    return [key for pair in zip(*by_bucket, strict=False) for key in pair]


def _load(system: System, stream: str, messages: int) -> None:
    keys = even_keys()
    for first in range(0, messages, _BATCH):
        numbers = range(first, min(first + _BATCH, messages))
        writing = system.producer().begin()
        writing.append(stream, 0, [(keys[number % len(keys)], b"%d" % number, number, ()) for number in numbers])
        writing.commit()


def _run(name: str, url: str, source: str, containers: int, messages: int) -> Busy:
    """To the end. The output of each run is its own, so that its system has all from the begin."""
    noise = Noise()
    with tempfile.TemporaryDirectory(prefix="fluvial-bench-") as folder:
        own = f"busy-{containers}-{uuid4().hex[:8]}"
        job = Job("busy", own, "", (source,), f"{own}-out", folder, str(Path(folder, "notes")))
        options = ("--until", "end", "--containers", str(containers), "--elasticity", str(containers))
        process = Running(program("busy", lambda _: url, *options), job)
        try:
            code = _wait(process)
            others = noise.share(process.sampler)
        finally:
            process.end()
        done = [value.split() for value in _values(open_system(url), job.output)] if code == 0 else []
        problem = process.tail() or f"exit code {code}" if code else ""
    problem = problem or _problem([int(number) for number, _ in done], messages)
    speed = steady([(int(number) % _CONTAINERS, int(at)) for number, at in done])
    found = Busy(
        system=name,
        containers=containers,
        messages_per_second=round(speed, 1),
        noise=round(others, 2),
        problem=problem,
    )
    tell(f"{name}, {containers} containers: {speed:,.0f}/s, noise {others:.0%} {problem}")
    return found


def _wait(process: Running) -> int:
    """Until it has ended; its exit code."""
    deadline = time.monotonic() + _LIMIT
    while (code := process.look()) is None:
        if time.monotonic() > deadline:
            raise SystemExit(f"not done after {_LIMIT:.0f} s:\n{process.tail()}")
        time.sleep(_LOOK)
    return code


def _values(system: System, stream: str) -> list[bytes]:
    admin = system.admin()
    batches = read_to_ends(system, stream, admin.starts(stream), admin.ends(stream))
    return [record[1] or b"" for batch in batches for record in batch.records]


def _problem(numbers: list[int], messages: int) -> str:
    """What is wrong with the output: each message must be there once, for no container has died."""
    if Counter(numbers) == Counter(range(messages)):
        return ""
    return f"{len(numbers):,} outputs, {len(set(numbers)):,} of them different, for {messages:,} messages"
