"""`python -m benchmarks.large_state`: a window and a join of ten million keys in 2 GiB, whose store is lost."""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from confluent_kafka import Producer
from msgspec import Struct

from benchmarks.__main__ import FOLDER, serving
from benchmarks.large_pipelines import HOUR, OTHERS
from benchmarks.results import Figures, circumstances, save
from benchmarks.sampling import Sampler
from benchmarks.topics import Topics, produce
from fluvial.dsl import INT64
from fluvial.runtime import Report
from kafka.broker_jars import ROOT

RESULT = ROOT / "benchmarks" / "results" / "large_state.json"
AGAIN = 10
"""One key in so many comes again, or on the other side of the join."""

_BEGIN = 1_699_999_200_000
"""The beginning of an hour, in ms since epoch."""
_MS = int(HOUR.total_seconds() * 1000)


class Step(Struct, frozen=True, kw_only=True):
    """A process of the engine: what it read, wrote and restored, in how many seconds, and the most memory it held."""

    seconds: float
    read: int
    written: int
    restored: int
    restore_seconds: float
    restored_per_second: int
    peak_rss_mb: int


class Large(Struct, frozen=True, kw_only=True):
    """A state of so many keys: `build` has filled it and committed; then its store was removed, and `finish` restored
    it from the changelog and went on to the end of the input, where every window fires and every row leaves."""

    kind: str
    keys: int
    build: Step
    finish: Step
    output_correct: bool


class Found(Figures, frozen=True, kw_only=True):
    """What came of it."""

    memory_mb: int
    runs: list[Large]


def large(topics: Topics, kind: str, keys: int, megabytes: int) -> Large:
    """Fill a state, lose it, restore it and bring it to its end."""
    source = f"large-{kind}-{int(time.time())}"
    output = f"{source}-out"
    folder = tempfile.mkdtemp(prefix="fluvial-large-")
    before = topics.names()
    for topic in (source, source + OTHERS):
        topics.create(topic)
    topics.create(output)
    try:
        produce_numbers(topics.address, source, keys, range(keys))
        words = (kind, topics.address, source, output, folder, str(megabytes))
        build = _step(*words, str(keys))
        shutil.rmtree(folder)
        produce_numbers(topics.address, source + (OTHERS if kind == "join" else ""), keys, _again(keys))
        finish = _step(*words, "0")
        correct = outcome(topics, output) == _expected(kind, keys)
    finally:
        topics.remove(topics.names() - before)
        shutil.rmtree(folder, ignore_errors=True)
    return Large(kind=kind, keys=keys, build=build, finish=finish, output_correct=correct)


def _again(keys: int) -> Iterable[int]:
    return range(0, keys, AGAIN)


def _expected(kind: str, keys: int) -> tuple[int, int]:
    """How many outputs there must be, and their sum."""
    again = list(_again(keys))
    if kind == "window":
        return keys, keys + len(again)
    return keys, sum(2 * number for number in again) - (keys - len(again))


def outcome(topics: Topics, output: str) -> tuple[int, int]:
    """How many outputs there are, and their sum."""
    values = [INT64.decode(value) for value, _ in topics.read(output)]
    return len(values), sum(values)


def produce_numbers(address: str, topic: str, keys: int, numbers: Iterable[int]) -> None:
    """Write numbers, each under its own key and at its own time of an hour."""
    settings = {"linger.ms": 50, "compression.type": "lz4", "partitioner": "murmur2_random"}
    producer = Producer({"bootstrap.servers": address, **settings})
    for done, number in enumerate(numbers, 1):
        at = _BEGIN + number * (_MS - 1) // keys
        produce(producer, topic, b"key-%010d" % number, INT64.encode(number), at)
        if done % 1_000_000 == 0:
            _tell(f"{topic}: {done:,} messages produced")
    producer.flush()


def _step(*words: str) -> Step:
    command = (sys.executable, "-m", "benchmarks.large_run", *words)
    _tell(" ".join(command[2:]))
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    sampler = Sampler(process.pid)
    sampler.start()
    said, _ = process.communicate()
    sampler.stop()
    if process.returncode:
        raise SystemExit(f"the run ended with {process.returncode}")
    report = msgspec.json.decode(said, type=Report)
    return Step(
        seconds=round(report.seconds, 1),
        read=sum(report.read.values()),
        written=sum(report.written.values()),
        restored=report.restored,
        restore_seconds=round(report.restore_seconds, 1),
        restored_per_second=round(report.restored / report.restore_seconds) if report.restored else 0,
        peak_rss_mb=sampler.peak >> 20,
    )


def _runs(topics: Topics, kinds: Sequence[str], keys: int, megabytes: int) -> Iterator[Large]:
    for kind in kinds:
        found = large(topics, kind, keys, megabytes)
        rate, peak = found.finish.restored_per_second, max(found.build.peak_rss_mb, found.finish.peak_rss_mb)
        _tell(
            f"{kind}: restored {rate:,} records/s, peak {peak:,} MB, {'correct' if found.output_correct else 'WRONG'}"
        )
        yield found


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all outputs were correct."""
    given = _parser().parse_args(arguments)
    with serving(given.broker) as topics:
        runs = list(_runs(topics, given.kind or ("window", "join"), given.keys, given.megabytes))
    found = Found(**circumstances(), memory_mb=given.megabytes, runs=runs)
    save(found, given.output)
    return 0 if all(run.output_correct for run in runs) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.large_state", description=(__doc__ or "").partition(": ")[2]
    )
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--megabytes", type=int, default=2048, help="memory that the engine may take")
    parser.add_argument("--kind", action="append", choices=("window", "join"), help="only this one")
    parser.add_argument("--broker", type=Path, default=FOLDER, metavar="DIR", help="where the broker keeps its data")
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE", help="where to save what was found")
    return parser


if __name__ == "__main__":
    sys.exit(main())
