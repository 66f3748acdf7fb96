"""`python -m benchmarks.large_state_on_spark`: what Spark writes and holds with ten million keys in a window.

The keys come in batches, and then batches that touch one key in a hundred; at last the input ends, and every window
fires. Bytes are those of the files that Spark's state store has written for a batch, compressed as it does.
"""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Literal

from msgspec import Struct
from pyspark.sql import SparkSession

from benchmarks.__main__ import FOLDER, serving
from benchmarks.contenders import SPARK_CORES, SPARK_MEMORY
from benchmarks.large_pipelines import window
from benchmarks.large_state import outcome, produce_numbers
from benchmarks.results import Figures, circumstances, save
from benchmarks.sampling import Sampler
from benchmarks.topics import Topics
from fluvial.planner import Settings
from fluvial.runtime import run
from kafka.broker_jars import CONNECTOR, ROOT

RESULT = ROOT / "benchmarks" / "results" / "large_state_on_spark.json"
BATCH = 1_000_000
"""Messages of a batch while the state grows."""

TOUCHES = 5
"""Batches of one key in a hundred."""

_FILE = re.compile(r"(\d+)(_[\w-]+)?\.(changelog|zip)$")


class Part(Struct, frozen=True, kw_only=True):
    """Runs of one kind: seconds of all, batches with messages, the median of the bytes that one writes, and the most
    memory that Python and Java held together."""

    seconds: float
    batches: int
    messages_per_batch: int
    megabytes_per_batch: float
    peak_rss_mb: int


class Found(Figures, frozen=True, kw_only=True):
    """What came of it."""

    keys: int
    driver_memory: str
    fill: Part
    touch: Part
    end: Part
    output_correct: bool


def large(topics: Topics, keys: int) -> Found:
    """Fill a state on Spark, touch some of it, and bring it to its end."""
    source, folder = f"large-spark-{int(time.time())}", tempfile.mkdtemp(prefix="fluvial-large-")
    output, before = f"{source}-out", topics.names()
    topics.create(source)
    topics.create(output)
    words = (topics.address, source, output, folder)
    try:
        produce_numbers(topics.address, source, keys, range(keys))
        fill = _part(folder, words, "caught-up", min(BATCH, keys))
        touched = 0
        chosen = random.Random(7)
        touches = []
        for _ in range(TOUCHES):
            numbers = chosen.sample(range(keys), keys // 100)
            touched += len(numbers)
            produce_numbers(topics.address, source, keys, numbers)
            touches.append(_part(folder, words, "caught-up", len(numbers)))
        end = _part(folder, words, "end", 0)
        correct = outcome(topics, output) == (keys, keys + touched)
    finally:
        topics.remove(topics.names() - before)
        shutil.rmtree(folder, ignore_errors=True)
    return Found(
        **circumstances(),
        keys=keys,
        driver_memory=SPARK_MEMORY,
        fill=fill,
        touch=_together(touches),
        end=end,
        output_correct=correct,
    )


def _part(folder: str, words: Sequence[str], until: str, messages: int) -> Part:
    """One run, in a process of its own."""
    before = written(Path(folder))
    command = (sys.executable, "-m", "benchmarks.large_state_on_spark", "--step", *words, until)
    started = time.monotonic()
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment)
    sampler = Sampler(process.pid)
    sampler.start()
    if process.wait():
        raise SystemExit(f"the run ended with {process.returncode}")
    sampler.stop()
    sizes = [size for version, size in written(Path(folder)).items() if version not in before]
    part = Part(
        seconds=round(time.monotonic() - started, 1),
        batches=len(sizes),
        messages_per_batch=messages,
        megabytes_per_batch=round(median(sizes or [0]) / 1e6, 2),
        peak_rss_mb=sampler.peak >> 20,
    )
    print(f"{until}: {part}", file=sys.stderr, flush=True)
    return part


def _together(parts: Sequence[Part]) -> Part:
    return Part(
        seconds=round(sum(part.seconds for part in parts), 1),
        batches=sum(part.batches for part in parts),
        messages_per_batch=parts[0].messages_per_batch,
        megabytes_per_batch=median(part.megabytes_per_batch for part in parts),
        peak_rss_mb=max(part.peak_rss_mb for part in parts),
    )


def written(folder: Path) -> dict[int, int]:
    """The bytes of Spark's state files below a folder, by version of the state: one for each batch."""
    sizes: Counter[int] = Counter()
    for file in folder.rglob("*"):
        if match := _FILE.match(file.name):
            sizes[int(match[1])] += file.stat().st_size
    return dict(sizes)


def step(address: str, source: str, output: str, folder: str, until: Literal["caught-up", "end"]) -> None:
    """Run the pipeline in this process."""
    builder: Any = SparkSession.builder.master(f"local[{SPARK_CORES}]")
    told = {
        "spark.jars": ",".join(CONNECTOR.paths()),
        "spark.driver.memory": SPARK_MEMORY,
        "spark.driver.host": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
    }
    for name, value in told.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    settings = Settings(state_dir=folder, spark_batch_records=BATCH)
    run(
        window(source, output), engine="spark", system=f"kafka://{address}", until=until, settings=settings, spark=spark
    )
    spark.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 0 if all outputs were correct."""
    given = _parser().parse_args(arguments)
    if given.step:
        step(*given.step)
        return 0
    with serving(given.broker) as topics:
        found = large(topics, given.keys)
    save(found, given.output)
    return 0 if found.output_correct else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.large_state_on_spark", description=__doc__)
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--broker", type=Path, default=FOLDER, metavar="DIR", help="where the broker keeps its data")
    parser.add_argument("--output", type=Path, default=RESULT, metavar="FILE", help="where to save what was found")
    parser.add_argument("--step", nargs=5, help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
