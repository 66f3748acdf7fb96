"""`python -m benchmarks.soak`: the local engine for a long time at half of its top rate; what it uses must not grow."""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import msgspec
from msgspec import Struct

from benchmarks.__main__ import FOLDER, serving
from benchmarks.constants import MINUTE, OUT_OF_ORDER
from benchmarks.contenders import CONTENDERS, fluvial
from benchmarks.latency import feeding
from benchmarks.process import Running, running
from benchmarks.results import LATEST, Figures, circumstances, load, save
from benchmarks.sampling import use_of
from benchmarks.topics import Topics
from benchmarks.workloads import Total
from kafka.broker_jars import ROOT

ENGINE, WORKLOAD = "local", "W2"
OFTEN = "200ms"
"""Between two commits: what is committed fills the write buffers of RocksDB, which are to become files, and those fewer
files, several times."""

RESULT = ROOT / "benchmarks" / "results" / "soak.json"
_INTERVAL = 2.0
_ALLOWED = (1.5 * MINUTE + OUT_OF_ORDER) / 1000
"""Seconds behind which it may be: the minute that is not over, what may be out of order, and half a minute to spare."""

_KEPT = {"retention_bytes": str(256 << 20), "segment_bytes": str(32 << 20)}
"""Of each partition of the input; the broker's disk is not endless."""


class Sample(Struct, frozen=True):
    """What the process used after so many seconds, and how many messages it had written."""

    seconds: float
    rss_mb: float
    threads: int
    files: int
    written: int


class Growth(Struct, frozen=True, kw_only=True):
    """A line through some samples by least squares: how much it rises in an hour, how much it has risen, and how far
    samples are from it (standard deviation)."""

    per_hour: float
    risen: float
    noise: float

    @property
    def is_flat(self) -> bool:
        """Whether it has risen by no more than samples scatter anyway: twice their deviation."""
        return self.risen <= 2 * self.noise + 1e-9


class Soak(Figures, frozen=True, kw_only=True):
    """What came of it. `rate` is in messages per second; of `seconds`, the first `warm_seconds` are not judged.
    `behind_seconds` says how long before the end the last minute ended that was written, None if there was none; not
    much more than a minute is well."""

    engine: str
    workload: str
    commit_interval: str
    seconds: float
    warm_seconds: float
    rate: int
    behind_seconds: float | None
    kept_up: bool
    flat: bool
    growth: dict[str, Growth]
    samples: list[Sample]
    problem: str = ""


def growth(times: Sequence[float], values: Sequence[float]) -> Growth:
    """Fit a line.

    >>> growth([0, 1, 2, 3], [5, 5, 5, 5]).is_flat, growth([0, 1, 2, 3], [5, 6, 7, 8]).is_flat
    (True, False)
    """
    middle, level = fmean(times), fmean(values)
    spread = sum((at - middle) ** 2 for at in times)
    slope = sum((at - middle) * (value - level) for at, value in zip(times, values, strict=True)) / (spread or 1)
    off = [value - level - slope * (at - middle) for at, value in zip(times, values, strict=True)]
    noise = (sum(distance**2 for distance in off) / len(off)) ** 0.5
    return Growth(
        per_hour=round(slope * 3600, 3), risen=round(slope * (times[-1] - times[0]), 3), noise=round(noise, 3)
    )


def soak(topics: Topics, rate: int, seconds: float, warm: float) -> Soak:
    """Feed the engine at a rate for so long, and watch what it uses; that it grows for the first `warm` seconds, while
    caches and the stores' write buffers fill, is well."""
    source = f"soak-{int(time.time())}"
    topics.create(source, **_KEPT)
    try:
        contender = replace(CONTENDERS[ENGINE], command=fluvial("--commit-interval", OFTEN))
        with running(contender, WORKLOAD, topics, (source,), endless=True) as process:
            with feeding(topics, source, rate, seconds):
                samples = list(_samples(process, topics, seconds))
            behind = _behind(topics, process.job.output, time.time())
            problem = process.tail() if process.look() is not None else ""
    finally:
        topics.remove([source])
    return judged(samples, rate, seconds, behind, problem, warm=warm)


def judged(
    samples: list[Sample], rate: int, seconds: float, behind: float | None, problem: str = "", *, warm: float = 0.0
) -> Soak:
    """What the samples say that were taken once it was warm."""
    steady = [sample for sample in samples if sample.seconds >= warm]
    times = [sample.seconds for sample in steady]
    names = ("rss_mb", "threads", "files") if steady else ()
    found = {name: growth(times, [getattr(sample, name) for sample in steady]) for name in names}
    return Soak(
        **circumstances(),
        engine=ENGINE,
        workload=WORKLOAD,
        commit_interval=OFTEN,
        seconds=seconds,
        warm_seconds=warm,
        rate=rate,
        behind_seconds=behind,
        kept_up=behind is not None and behind <= _ALLOWED,
        flat=bool(found) and not problem and all(line.is_flat for line in found.values()),
        growth=found,
        samples=samples,
        problem=problem,
    )


def _samples(process: Running, topics: Topics, seconds: float) -> Iterator[Sample]:
    begun = time.monotonic()
    while (passed := time.monotonic() - begun) < seconds and process.look() is None:
        use, written = use_of(process.pid), sum(topics.ends(process.job.output))
        yield (sample := Sample(round(passed, 1), round(use.rss / 1e6, 1), use.threads, use.files, written))
        told = f"{sample.seconds:5.0f} s  {sample.rss_mb:,.0f} MB  {sample.threads} threads  {sample.files} files"
        print(told, file=sys.stderr, flush=True)
        time.sleep(_INTERVAL)


def _behind(topics: Topics, output: str, now: float) -> float | None:
    decode = msgspec.json.Decoder(Total).decode
    starts = (decode(value).start for value, _ in topics.read(output))
    last = max(starts, default=None)
    return None if last is None else round(now - (last + MINUTE) / 1000, 1)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all was flat."""
    given = _parser().parse_args(arguments)
    with serving(given.broker) as topics:
        warm = given.warm * 60
        found = soak(topics, given.rate or half_of_top(), warm + given.minutes * 60, warm)
    save(found, given.output)
    for name, line in found.growth.items():
        print(f"{name}: {line.per_hour:+.1f} an hour, {'flat' if line.is_flat else 'GROWS'}")
    print(f"{found.rate:,} messages/s, {found.behind_seconds} s behind at the end\n{found.problem}")
    return 0 if found.flat and found.kept_up else 1


def half_of_top() -> int:
    """Half of the rate that was measured last."""
    return next(r.messages_per_second for r in load(LATEST).runs if (r.engine, r.workload) == (ENGINE, WORKLOAD)) // 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=(__doc__ or "").partition(": ")[2])
    parser.add_argument("--minutes", type=float, default=10, help="how long it is judged")
    parser.add_argument(
        "--warm", type=float, default=5, metavar="MINUTES", help="how long it runs before, to fill caches"
    )
    parser.add_argument("--rate", type=int, metavar="N", help="messages per second; default: half of the last measured")
    parser.add_argument("--broker", type=Path, default=FOLDER, metavar="DIR", help="where the broker keeps its data")
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE", help="where to save what was found")
    return parser


if __name__ == "__main__":
    sys.exit(main())
