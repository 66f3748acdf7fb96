"""How long messages take at a steady rate, from when they are produced to when their output is in the broker."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
from msgspec import Struct

from benchmarks.contenders import Contender
from benchmarks.process import Running, running
from benchmarks.results import Latency
from benchmarks.topics import Topics
from kafka.broker_jars import ROOT

WORKLOAD = "W1"
_WARM_RATE = 200
_WARM = 60.0
"""Seconds to wait at most for the first output."""

_SETTLE = 2.0
"""Seconds at the full rate that do not count."""


class Stamped(Struct):
    """When an event was produced, in ms since epoch."""

    at: int


def latency(contender: Contender, topics: Topics, rate: int, seconds: float) -> Latency | str:
    """The latencies of a contender at so many messages a second, or what went wrong."""
    source = f"live-{contender.name}-{os.getpid()}-{int(time.time())}"
    topics.create(source)
    try:
        with running(contender, WORKLOAD, topics, (source,), endless=True) as process:
            if not _warm(process, topics, source):
                return process.tail() or "there was no output"
            begun = time.time() + _SETTLE
            with feeding(topics, source, rate, seconds + _SETTLE) as feeder:
                feeder.wait()
            time.sleep(1)
            waited = list(_waited(topics, process.job.output, begun * 1000))
    finally:
        topics.remove([source])
    return told(contender.name, rate, waited)


def told(engine: str, rate: int, waited: list[int]) -> Latency | str:
    """The median of some latencies, and the worst of all but one in a hundred."""
    if not waited:
        return "there was no output in time"
    ordered = sorted(waited)
    return Latency(
        engine=engine,
        workload=WORKLOAD,
        messages_per_second=rate,
        p50_ms=ordered[len(ordered) // 2],
        p99_ms=ordered[len(ordered) * 99 // 100],
        worst_ms=ordered[-1],
        samples=len(ordered),
    )


@contextmanager
def feeding(topics: Topics, topic: str, rate: int, seconds: float) -> Iterator["subprocess.Popen[bytes]"]:
    """A process that feeds a topic."""
    command = [sys.executable, "-m", "benchmarks.feeding", topics.address, topic, str(rate), str(seconds)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL) as feeder:
        try:
            yield feeder
        finally:
            feeder.terminate()


def _warm(process: Running, topics: Topics, source: str) -> bool:
    """Feed slowly until output comes."""
    deadline = time.monotonic() + _WARM
    with feeding(topics, source, _WARM_RATE, _WARM):
        while time.monotonic() < deadline and process.look() is None:
            if sum(topics.ends(process.job.output)):
                return True
            time.sleep(0.2)
    return False


def _waited(topics: Topics, output: str, begun: float) -> Iterator[int]:
    decode = msgspec.json.Decoder(Stamped).decode
    for value, at in topics.read(output):
        produced = decode(value).at
        if produced >= begun:
            yield at - produced
