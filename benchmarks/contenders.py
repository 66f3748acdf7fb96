"""Who is measured: the loop, the engines, and PySpark written by hand; each leaves its output in the stream `out`."""

import time
from collections.abc import Callable, Mapping
from hashlib import blake2b
from importlib import import_module
from pathlib import Path

from msgspec import Struct

from benchmarks.loop import LOOPS
from benchmarks.memory import peak_mb
from benchmarks.workloads import Workload
from fluvial.runtime import run
from fluvial.runtime.needs import missing
from fluvial.runtime.systems import LogSystem
from fluvial.runtime.systems.log import LogReader

Contender = Callable[[Workload, Path], tuple[float, int]]
"""Runs a workload over the log in a folder; the seconds that it took, and the peak of its memory in MB."""


class Measured(Struct, frozen=True):
    """One run. `digest` is the same for the same output in whatever order."""

    seconds: float
    peak_mb: int
    digest: str


def loop(workload: Workload, directory: Path) -> tuple[float, int]:
    """The loop written by hand."""
    begin = time.perf_counter()
    LOOPS[workload.name](directory)
    return time.perf_counter() - begin, peak_mb()


def local(workload: Workload, directory: Path) -> tuple[float, int]:
    """The local engine; its code is loaded before."""
    import_module("fluvial.runtime.local.engine")
    begin = time.perf_counter()
    run(workload.pipeline, engine="local", system=LogSystem(directory, fsync=False), until="end")
    return time.perf_counter() - begin, peak_mb()


def _of_spark(function: str) -> Contender:
    # Loaded late, for Spark is an extra and takes memory.
    return lambda workload, directory: getattr(import_module("benchmarks.spark"), function)(workload, directory)


CONTENDERS: Mapping[str, Contender] = {
    "loop": loop,
    "local": local,
    "pyspark": _of_spark("by_hand"),
    "spark": _of_spark("engine"),
}
BASELINE = "loop"


def measure(name: str, workload: Workload, directory: Path) -> Measured:
    """Run one contender, in this process."""
    seconds, peak = CONTENDERS[name](workload, directory)
    return Measured(seconds, peak, digest_of(directory))


def available() -> list[str]:
    """The contenders that can run here."""
    spark = missing("spark") is None
    return [name for name in CONTENDERS if spark or "spark" not in name]


def digest_of(directory: Path) -> str:
    """A digest of all records of the output, whatever their order."""
    reader = LogReader(directory)
    total = 0
    for partition, end in enumerate(reader.ends("out")):
        for batch in reader.read("out", partition, 0, end):
            for key, value, at, _ in batch.records:
                record = b"%b %b %d" % (key or b"", value or b"", at)
                total += int.from_bytes(blake2b(record, digest_size=8).digest())
    return f"{total % 2**64:016x}"
