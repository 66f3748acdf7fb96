"""Who is measured: each is a program that finds its job around it, in an environment of its own where it needs one."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.job import Job
from benchmarks.sources import PARTITIONS
from fluvial.runtime.preflight.requirements import missing
from kafka.broker_jars import CONNECTOR, ROOT

Group = Literal["own", "peer"]
PIPELINES = ROOT / "benchmarks" / "pipelines.py"
PEERS = ROOT / "benchmarks" / "peers"
ENVIRONMENTS = ROOT / ".peers"
BASELINE, BY_SPARK = "raw", "pyspark"
SPARK_CORES = 2
SPARK_MEMORY = "4g"


@dataclass(frozen=True, slots=True)
class Contender:
    """`command` is what to run for a job. `cannot` says why some workloads are not run, `ends` whether its process
    ends by itself at the end of the input, `tasks` how many tasks it processes at once: Spark one for each core."""

    name: str
    title: str
    group: Group
    command: Callable[[Job], Sequence[str]]
    cannot: Mapping[str, str]
    package: str = "fluvial"
    ends: bool = True
    tasks: int = PARTITIONS


def _module(*words: str) -> Callable[[Job], Sequence[str]]:
    return lambda _: (sys.executable, "-m", *words)


def fluvial(*options: str) -> Callable[[Job], Sequence[str]]:
    """A run of a job's pipeline, with more options."""

    def command(job: Job) -> Sequence[str]:
        until = "stopped" if job.endless else "end"
        target = f"{PIPELINES}:{job.workload.lower()}"
        verb = (str(Path(sys.executable).with_name("fluvial")), "run", target)
        return (*verb, "--system", f"kafka://{job.address}", "--until", until, "--quiet", *options)

    return command


def _fluvial_spark(job: Job) -> Sequence[str]:
    jars = f"spark.jars={','.join(CONNECTOR.paths())}"
    memory = f"spark.driver.memory={SPARK_MEMORY}"
    spark = ("--engine", "spark", "--master", f"local[{SPARK_CORES}]", "--spark-conf", jars, "--spark-conf", memory)
    return fluvial(*spark)(job)


def _peer(name: str) -> Callable[[Job], Sequence[str]]:
    return lambda _: (str(python_of(name)), str(PEERS / f"on_{name}.py"))


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment."""
    return ENVIRONMENTS / peer / "bin" / "python"


_AS_ABOVE: dict[str, str] = dict.fromkeys(("W1", "W2", "W4", "W5", "W6"), "there is one way to write it")
_LACKS_FAUST = {"W4": "no sessions", "W6": "its joins of streams are declared, and raise NotImplementedError"}

CONTENDERS: Mapping[str, Contender] = {
    contender.name: contender
    for contender in (
        Contender("raw", "a loop by hand", "own", _module("benchmarks.references.raw"), {}, "confluent-kafka"),
        Contender("local", "Fluvial", "own", fluvial(), {}),
        Contender("local-2", "Fluvial, two containers", "own", fluvial("--containers", "2"), {}),
        Contender("pyspark", "PySpark by hand", "own", _module("benchmarks.references.by_spark"), {}, "pyspark"),
        Contender(
            "pyspark-each",
            "PySpark by hand, each count",
            "own",
            _module("benchmarks.references.by_spark", "each"),
            _AS_ABOVE,
            "pyspark",
        ),
        Contender("spark", "Fluvial on Spark", "own", _fluvial_spark, {}, tasks=SPARK_CORES),
        Contender("quix", "Quix Streams", "peer", _peer("quix"), {}, "quixstreams", ends=False),
        Contender("bytewax", "Bytewax", "peer", _peer("bytewax"), {}, "bytewax"),
        Contender("faust", "Faust", "peer", _peer("faust"), _LACKS_FAUST, "faust-streaming", ends=False),
        Contender("pathway", "Pathway", "peer", _peer("pathway"), {}, "pathway"),
    )
}


def lacking(contender: Contender) -> str | None:
    """What a contender needs and this machine does not have, if anything."""
    if contender.group == "peer":
        return None if python_of(contender.name).exists() else "its environment: make bench-peers makes it"
    if "spark" in contender.name:
        need = missing("spark")
        if need is not None:
            return f"{need.missing}: {need.remedy}"
        return None if CONNECTOR.are_there() else "Spark's connector to Kafka: make spark-jars brings it"
    return None


def environment(job: Job) -> dict[str, str]:
    """The environment of a contender's process: it leaves what it writes in its own folder."""
    base = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SPARK_HOME")}
    own = {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "TMPDIR": job.folder, "PYSPARK_PYTHON": sys.executable}
    return {**base, **own, **job.environment()}


def chosen(names: Sequence[str] | None, groups: Sequence[Group]) -> list[Contender]:
    """The contenders of these names, or else of these groups; the loop by hand is always one, and the first."""
    found = [CONTENDERS[name] for name in names] if names else [c for c in CONTENDERS.values() if c.group in groups]
    return list({contender.name: contender for contender in (CONTENDERS[BASELINE], *found)}.values())
