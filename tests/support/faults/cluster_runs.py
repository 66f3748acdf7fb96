"""Runs of a query on a cluster of Spark's: how far they have come, and what of them is killed."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple, get_args

from msgspec import json

from engines import cluster_pipelines
from engines.cluster_pipelines import PIPELINES, Order
from engines.namespaces import Namespace
from engines.spark_home import java_options
from engines.standalone_cluster import StandaloneCluster, below, command
from engines.targets import outputs_of
from faults.deaths import ENVIRONMENT
from fluvial.runtime.systems import KafkaSystem
from fluvial.runtime.systems.kafka import BatchMarkers, Cluster
from kafka.broker import Broker
from kafka.broker_jars import connector_jars
from oracle.interpreter import Outputs
from waiting import wait_until

PATIENCE = 300.0
SMALL = {
    "spark.driver.host": "127.0.0.1",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.executor.extraJavaOptions": java_options(),
}
"""An executor on each of two workers. Each core more takes one more process of Python for each kind of task."""

Point = Literal["tasks run", "planned", "written", "committed"]
"""When executors have processes of Python, Spark has planned one more batch, Kafka has committed outputs of one more,
or Spark has committed one more."""
POINTS: tuple[Point, ...] = get_args(Point)

DriverPart = Literal["all", "python", "java"]
"""All of a driver, or one of its two processes, whereupon the other ends by itself."""
DRIVER_PARTS: tuple[DriverPart, ...] = get_args(DriverPart)

ClusterPart = Literal["executor", "worker", "machine"]
"""An executor; a worker, whose executor then ends; or a worker with all that runs below it."""
CLUSTER_PARTS: tuple[ClusterPart, ...] = get_args(ClusterPart)


class Batches(NamedTuple):
    """The newest batches, as Spark's checkpoint and Kafka know them; -1 for none."""

    planned: int
    written: int
    committed: int

    @property
    def place(self) -> str:
        """Where a run is, or was killed."""
        if self.planned == self.committed:
            return "between batches"
        return "outputs committed, batch not" if self.written == self.planned else "outputs not committed"


@dataclass
class ClusterRuns:
    """Runs of one pipeline, one after the other, on a part of a broker and in a folder of their own."""

    broker: Broker
    cluster: StandaloneCluster
    folder: Path
    pipeline: str
    batch_records: int
    space: Namespace

    def outputs(self) -> Outputs:
        """What a reader sees who sees what is committed."""
        pipeline = PIPELINES[self.pipeline]()
        return outputs_of(self.space, {source.stream for source in pipeline.sources}, pipeline.name)

    @contextmanager
    def running(self) -> "Iterator[ClusterRun]":
        """A run to the end of the input; what is left of it is killed."""
        run = ClusterRun(self)
        try:
            yield run
        finally:
            run.kill("all")

    def batches(self) -> Batches:
        """How far the query has come."""
        return Batches(self.planned(), self.written(), self.committed())

    def planned(self) -> int:
        """The newest batch that is planned."""
        return self._newest("offsets")

    def committed(self) -> int:
        """The newest batch that Spark has committed."""
        return self._newest("commits")

    def written(self) -> int:
        """The newest batch of which Kafka has committed outputs."""
        if self.planned() < 0:
            return -1
        markers, partitions = self._markers
        return max((marker.batch for marker in markers.read(partitions).values()), default=-1)

    @property
    def _folder(self) -> Path:
        return self.folder / f"{self.space.prefix}{PIPELINES[self.pipeline]().name}"

    def _newest(self, kind: str) -> int:
        return max((int(file.name) for file in self._folder.glob(f"*/*/spark/{kind}/[0-9]*")), default=-1)

    @cached_property
    def _markers(self) -> tuple[BatchMarkers, list[tuple[str, int]]]:
        (identity,) = self._folder.glob("*/*/identity")
        system, prefix = self.space.system, self.space.prefix
        assert isinstance(system, KafkaSystem)
        streams = {name: count for name, count in system.admin().streams().items() if name.startswith(prefix)}
        partitions = [(name, number) for name, count in streams.items() for number in range(count)]
        return BatchMarkers(Cluster(system.settings), f"{self._folder.name}@{identity.read_text()}"), partitions


@dataclass
class ClusterRun:
    """The driver of a run, with a Spark of its own."""

    runs: ClusterRuns
    process: "subprocess.Popen[bytes]" = field(init=False)

    def __post_init__(self) -> None:
        runs = self.runs
        order = Order(
            pipeline=runs.pipeline,
            prefix=runs.space.prefix,
            servers=runs.broker.address,
            master=runs.cluster.master,
            state_dir=runs.folder.as_uri(),
            batch_records=runs.batch_records,
        )
        words = [f"--conf {shlex.quote(f'{name}={value}')}" for name, value in SMALL.items()]
        told = {"PYSPARK_SUBMIT_ARGS": f"{' '.join(words)} --jars {','.join(connector_jars())} pyspark-shell"}
        arguments = [sys.executable, cluster_pipelines.__file__, json.encode(order).decode()]
        environment = {**ENVIRONMENT, **runs.cluster.environment, **told}
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(arguments, env=environment, stdout=said, stderr=said)

    def ended(self, code: int) -> str:
        """What it has said, once it has ended with this exit code."""
        assert self.process.wait(PATIENCE) == code, self.said
        return self.said

    @property
    def said(self) -> str:
        """What it has said so far."""
        return self._said.read_text(errors="replace")

    def reach(self, point: Point) -> None:
        """Return once the run is there, counted from where it is now."""
        runs, before = self.runs, self.runs.batches()

        def is_there() -> bool:
            match point:
                case "tasks run":
                    return any(True for executor in self._executors() for _ in below(executor))
                case "planned":
                    return runs.planned() > before.planned
                case "written":
                    return runs.written() > before.written
                case "committed":
                    return runs.committed() > before.committed

        wait_until(lambda: is_there() or self.has_ended, f"a run is at {point!r}", PATIENCE)
        self.must_run()

    @property
    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def must_run(self) -> None:
        """What is killed must be alive."""
        assert not self.has_ended, f"it ended before its time: {self.said}"

    def kill(self, part: DriverPart) -> None:
        """Kill the driver; one of its processes leaves the other to itself."""
        if not self.has_ended:
            self.process.send_signal(signal.SIGSTOP)  # at once: it takes a while to find the others
            processes = [self.process.pid, *below(self.process.pid)]
            java = [process for process in processes if "deploy.SparkSubmit" in command(process)]
            for process in {"all": processes, "python": processes[:1], "java": java}[part]:
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            self.process.send_signal(signal.SIGCONT)
        self.process.wait(PATIENCE)

    def lose(self, part: ClusterPart, random: Random) -> None:
        """Kill a part of the cluster on which the run has an executor."""
        cluster = self.runs.cluster

        def found() -> list[str]:
            return [worker for worker in cluster.workers if cluster.executors(worker)]

        worker = random.choice(wait_until(found, "a worker has an executor", PATIENCE))
        if part == "executor":
            for executor in cluster.executors(worker):
                with suppress(ProcessLookupError):
                    os.kill(executor, signal.SIGKILL)
        elif part == "worker":
            cluster.kill(worker)
        else:
            cluster.lose(worker)

    def _executors(self) -> Iterator[int]:
        for worker in self.runs.cluster.workers:
            yield from self.runs.cluster.executors(worker)

    @property
    def _said(self) -> Path:
        return self.runs.folder.with_suffix(".said")
