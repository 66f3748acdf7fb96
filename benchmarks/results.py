"""What was found, for people and for later: medians of rounds, in a file of JSON."""

import os
import platform
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypedDict

import msgspec
from msgspec import Struct

from benchmarks.contenders import CONTENDERS, Contender, python_of
from kafka.broker_jars import BROKER, ROOT

LATEST = ROOT / "benchmarks" / "results" / "latest.json"
_PACKAGES = ("fluvial", "confluent-kafka", "msgspec", "rocksdict", "pyspark", "pyarrow")


class Run(Struct, frozen=True, kw_only=True):
    """Medians of a contender's rounds on a workload.

    Ratios are of messages per second, within a round. `messages_per_second` counts from the first message to the last
    output; a run that was stopped at the time limit is `partial`: what it did until then counts, and its output was
    not whole. `noise` is the share of the machine that others used, at the worst.
    """

    engine: str
    workload: str
    messages_per_second: int
    ratio_to_raw: float
    ratio_to_pyspark: float | None = None
    peak_rss_mb: int
    cpu_seconds_per_million: float
    startup_seconds: float
    output_correct: bool
    partial: bool = False
    noise: float = 0.0
    rounds: list[int]
    problem: str = ""


class Latency(Struct, frozen=True, kw_only=True):
    """Milliseconds from when a message was produced to when its output was in the broker."""

    engine: str
    workload: str
    messages_per_second: int
    p50_ms: float
    p99_ms: float
    worst_ms: float
    samples: int


class Share(Struct, frozen=True, kw_only=True):
    """Processor time of the main thread that goes into a part of the work, in nanoseconds a message of the input."""

    engine: str
    workload: str
    part: str
    nanoseconds: int


class Figures(Struct, frozen=True, kw_only=True):
    """Figures, with what they depend on. `date` is the day on which they were measured, in UTC."""

    commit: str
    date: str
    machine: dict[str, str]


class Circumstances(TypedDict):
    """What all `Figures` depend on."""

    commit: str
    date: str
    machine: dict[str, str]


class Results(Figures, frozen=True, kw_only=True):
    """The figures of workloads. `messages` is the size of the input; W5 reads a part of it, and W6 has an input of its
    own, of about half as many."""

    versions: dict[str, str]
    messages: int
    runs: list[Run]
    latencies: list[Latency]
    shares: list[Share] = []


def results(
    messages: int, runs: Sequence[Run], latencies: Sequence[Latency] = (), shares: Sequence[Share] = ()
) -> Results:
    """The figures of now and here."""
    engines = {run.engine for run in runs}
    return Results(
        **circumstances(),
        versions=_versions(engines),
        messages=messages,
        runs=list(runs),
        latencies=list(latencies),
        shares=list(shares),
    )


def load(file: Path = LATEST) -> Results:
    """What a file holds."""
    return msgspec.json.decode(file.read_bytes(), type=Results)


def save(found: Figures, file: Path) -> None:
    """Write a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def circumstances() -> Circumstances:
    """What figures that are measured now depend on."""
    return {"commit": commit(), "date": today(), "machine": machine()}


@cache
def commit() -> str:
    """The commit that runs; what is written on the way does not count."""
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def today() -> str:
    """The day on which it runs, in UTC, as 2026-11-23."""
    return datetime.now(UTC).date().isoformat()


def _versions(engines: set[str]) -> dict[str, str]:
    found = {"python": platform.python_version(), "kafka": _kafka()}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    peers = [contender for contender in CONTENDERS.values() if contender.group == "peer" and contender.name in engines]
    return found | {peer.package: _version_of(peer) for peer in peers}


def _kafka() -> str:
    jars = [jar.name for jar in BROKER.folder.glob("kafka-server-4*.jar")]
    return jars[0].removesuffix(".jar").rpartition("-")[2] if jars else "unknown"


def _version_of(peer: Contender) -> str:
    ask = f"import importlib.metadata as m; print(m.version({peer.package!r}))"
    done = subprocess.run([python_of(peer.name), "-c", ask], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def machine() -> dict[str, str]:
    """What it runs on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "system": platform.platform(),
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "memory": f"{memory:.0f} GB",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
