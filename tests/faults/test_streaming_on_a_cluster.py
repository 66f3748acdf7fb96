"""Queries on a standalone cluster of Spark's, from Kafka to Kafka under exactly_once: whatever is killed there, readers
see what the local engine writes."""

import gzip
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import msgspec
import pytest

pytest.importorskip("pyspark", reason="the engine needs pyspark")

from benchmarks.events import events
from benchmarks.oracle import expected as table_of
from benchmarks.oracle import judge
from engines.cluster_pipelines import PIPELINES, POISON, swallow
from engines.comparing import assert_same
from engines.standalone_cluster import StandaloneCluster
from engines.targets import namespace, run_on, write
from faults.cluster_runs import CLUSTER_PARTS, DRIVER_PARTS, POINTS, ClusterRun, ClusterRuns, Point
from fluvial.dsl import MessageError, SystemProblem
from fluvial.dsl.message import Record
from fluvial.runtime.systems import MemorySystem
from fluvial.runtime.systems.partitioner import partition_for
from kafka.broker import Broker
from oracle.interpreter import Inputs, Outputs
from oracle.visits import DATA, in_order
from oracle.visits import sessions as sessions_of

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(1800)]

KILLS = 10
"""Kills of one run: drivers are killed 20 times, and executors and workers 20 times."""
LONGEST: Mapping[Point, float] = {"tasks run": 6, "planned": 2}
"""Seconds from a point to a kill, at most: about as long as it takes to end the first batch, or another."""
PARTITIONS = 2
EVENTS = 10_000
NUMBERS = 20_000


def visits() -> Inputs:
    """A real access log."""
    if not DATA.exists():
        pytest.skip(f"{DATA.name} is not beside the repository")
    lines: list[Record] = [(None, line, 0, ()) for line in gzip.decompress(DATA.read_bytes()).splitlines()]
    return {"access-log": [lines[part::PARTITIONS] for part in range(PARTITIONS)]}


def spendings() -> Inputs:
    """Events of the benchmarks, in the partitions of their keys."""
    parts: list[list[Record]] = [[] for _ in range(PARTITIONS)]
    for event in events(EVENTS):
        key = event.user.encode()
        parts[partition_for(key, PARTITIONS)].append((key, msgspec.json.encode(event), event.at, ()))
    return {"events": parts}


INPUTS: Mapping[str, Callable[[], Inputs]] = {"sessions": visits, "totals": spendings}


def expected(pipeline: str, inputs: Inputs) -> Outputs:
    """What the local engine writes; programs without Fluvial find the same."""
    outputs = run_on(MemorySystem(), PIPELINES[pipeline](), inputs)
    if pipeline == "totals":
        table = table_of("W2", events(EVENTS))
        verdict = judge("W2", table, [record[1] or b"" for record in outputs["minutes"]])
        assert verdict.correct
        assert verdict.outputs == len(table)
    else:
        lines = [(record[1] or b"").decode() for part in inputs["access-log"] for record in part]
        found = [msgspec.json.decode(record[1] or b"") for record in outputs["sessions"]]
        assert in_order(found) == in_order(sessions_of(lines))
        assert len(found) == 3052
    return outputs


@pytest.fixture
def workers(cluster: StandaloneCluster) -> Iterator[StandaloneCluster]:
    """The cluster with all its workers, before and after."""
    cluster.mend()
    yield cluster
    cluster.mend()


@pytest.fixture
def made(broker: Broker, workers: StandaloneCluster, tmp_path: Path) -> Callable[..., ClusterRuns]:
    """Makes runs of a pipeline, and writes their input."""

    def make(pipeline: str, inputs: Inputs, batch_records: int = 400) -> ClusterRuns:
        folder = tmp_path / "state"
        folder.mkdir()
        runs = ClusterRuns(broker, workers, folder, pipeline, batch_records, namespace(broker))
        write(runs.space, inputs)
        return runs

    return make


def approach(run: ClusterRun, number: int, random: Random) -> str:
    """Return when a run is to be killed, that many kills after the first: all points have their turns. Tells where it
    is, unless it ends before."""
    point = POINTS[number % len(POINTS)]
    run.reach(point)
    if point in LONGEST:
        time.sleep(random.uniform(0, LONGEST[point]))
    run.must_run()
    return point


@pytest.mark.parametrize("pipeline", INPUTS)
def test_nothing_is_lost_or_repeated_on_a_cluster(made: Callable[..., ClusterRuns], pipeline: str) -> None:
    inputs = INPUTS[pipeline]()
    runs = made(pipeline, inputs, 2000)
    with runs.running() as run:
        run.ended(0)
    assert_same(runs.outputs(), expected(pipeline, inputs))


@pytest.mark.parametrize("pipeline", INPUTS)
def test_a_run_outlives_executors_and_workers(made: Callable[..., ClusterRuns], pipeline: str) -> None:
    inputs, random = INPUTS[pipeline](), Random(f"workers of {pipeline}")
    runs, found = made(pipeline, inputs), Counter[str]()
    with runs.running() as run:
        for number in range(KILLS):
            point, part = approach(run, number, random), random.choice(CLUSTER_PARTS)
            run.lose(part, random)
            found[f"{part}, {runs.batches().place}"] += 1
            print(f"{point}: {part}, {runs.batches()}")
            runs.cluster.mend()
        run.ended(0)
    print(dict(found))
    assert_same(runs.outputs(), expected(pipeline, inputs))


@pytest.mark.parametrize("pipeline", INPUTS)
def test_runs_whose_drivers_are_killed_lose_and_repeat_nothing(made: Callable[..., ClusterRuns], pipeline: str) -> None:
    inputs, random = INPUTS[pipeline](), Random(f"drivers of {pipeline}")
    runs, found = made(pipeline, inputs), Counter[str]()
    for number in range(KILLS):
        with runs.running() as run:
            point, part = approach(run, number, random), random.choice(DRIVER_PARTS)
            run.kill(part)
            assert part != "java" or run.process.returncode == SystemProblem.exit_code, run.said
            found[runs.batches().place] += 1
            print(f"{point}: {part}, {runs.batches()}")
    with runs.running() as run:
        run.ended(0)
    print(dict(found))
    assert found["outputs committed, batch not"], "no committed batch was cut off"
    assert found["outputs not committed"], "no batch was cut off in the middle"
    assert_same(runs.outputs(), expected(pipeline, inputs))


def test_a_poison_message_leaves_nothing_of_its_batch(made: Callable[..., ClusterRuns]) -> None:
    numbers: list[Record] = [(None, b"%d" % number, 1, ()) for number in range(100, NUMBERS + 99)]
    poison: list[Record] = [(None, b"%d" % POISON, 1, ())]
    inputs = {"numbers": [numbers[::2], [*numbers[1::2], *poison]]}
    runs = made("swallowing", inputs, NUMBERS)
    with runs.running() as run:
        said = run.ended(MessageError.exit_code)
    line = f"{swallow.__code__.co_filename}:{swallow.__code__.co_firstlineno + 2}"
    assert f"partition 1, offset {NUMBERS // 2 - 1}, key none: ValueError: poison, raised at {line}\n" in said
    assert (runs.planned(), runs.committed()) == (0, -1), "all numbers are in one batch, which has failed"
    assert not any(runs.space.admin().ends("swallowed")), "also for readers of what is not committed"

    mended = replace(runs, pipeline="sparing")
    with mended.running() as run:
        run.ended(0)
    assert_same(mended.outputs(), run_on(MemorySystem(), PIPELINES["sparing"](), inputs))
