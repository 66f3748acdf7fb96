"""`python -m benchmarks`: measure engines and peers beside a loop by hand, on one broker, and save the figures."""

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks.contenders import CONTENDERS, Contender, chosen, lacking
from benchmarks.latency import WORKLOAD as AT_A_RATE
from benchmarks.latency import latency
from benchmarks.page import publish, table
from benchmarks.parts import shares
from benchmarks.profiling import profile
from benchmarks.results import LATEST, Latency, Results, Run, Share, load, results, save
from benchmarks.rounds import Size, compare
from benchmarks.topics import Topics, stays
from benchmarks.workloads import WORKLOADS, Workload
from kafka.broker import Broker
from kafka.broker_jars import ROOT

FOLDER = ROOT / ".kafka" / "bench"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 0 if every output that is whole was correct."""
    given = _parser().parse_args(arguments)
    if given.publish:
        publish(load(given.output))
        return 0
    with serving(given.broker) as topics:
        return _profiles(given, topics) if given.profile else _measured(given, topics)


def _measured(given: argparse.Namespace, topics: Topics) -> int:
    """Measure, and save after each workload: what is cut off leaves what it has found."""
    contenders = list(_able(chosen(given.engine, ["own", "peer"] if given.peers else ["own"])))
    runs: list[Run] = []
    for workload in _workloads(given):
        runs.extend(compare(workload, contenders, _size(given), topics, _tell))
        _keep(results(given.messages, runs), given.output)
    latencies = list(_latencies(contenders, given.rate, given.seconds, topics))
    found = results(given.messages, runs, latencies, list(_shares(given, contenders, topics)))
    _keep(found, given.output)
    Console(width=None if sys.stdout.isatty() else 140).print(table(found))
    return 0 if all(run.output_correct for run in runs if CONTENDERS[run.engine].group == "own") else 1


def _profiles(given: argparse.Namespace, topics: Topics) -> int:
    for workload in _workloads(given):
        profile(CONTENDERS[given.profile], workload, _size(given), topics, _tell)
    return 0


def _keep(found: Results, file: Path) -> None:
    save(found, file)
    if file == LATEST:
        publish(found)


def _size(given: argparse.Namespace) -> Size:
    return Size(given.messages, given.rounds, given.peer_rounds, given.limit)


def _workloads(given: argparse.Namespace) -> list[Workload]:
    return [WORKLOADS[name] for name in given.workload or WORKLOADS]


@contextmanager
def serving(folder: Path) -> Iterator[Topics]:
    """A broker that keeps its data in a folder; whoever ends the harness ends it too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder.mkdir(parents=True, exist_ok=True)
    with Broker(folder, loaded=True) as broker:
        topics = Topics(broker.address)
        topics.remove(name for name in topics.names() if not stays(name))  # of runs that were cut off, or of old input
        try:
            yield topics
        finally:
            topics.close()
            broker.stop()


def _latencies(contenders: Sequence[Contender], rate: int, seconds: float, topics: Topics) -> Iterator[Latency]:
    able = [contender for contender in contenders if AT_A_RATE not in contender.cannot]
    for contender in able if rate else ():
        found = latency(contender, topics, rate, seconds)
        if isinstance(found, Latency):
            _tell(f"latency: {contender.name} p50 {found.p50_ms} ms, p99 {found.p99_ms} ms")
            yield found
        else:
            _tell(f"latency: {contender.name} failed\n{found}")


def _shares(given: argparse.Namespace, contenders: Sequence[Contender], topics: Topics) -> Iterator[Share]:
    if any(contender.name == "local" for contender in contenders):
        for workload in _workloads(given):
            _tell(f"{workload.name}: where the time of the main thread goes")
            yield from shares(workload, _size(given), topics, _tell)


def _able(contenders: Sequence[Contender]) -> Iterator[Contender]:
    for contender in contenders:
        if reason := lacking(contender):
            _tell(f"{contender.name} is left out; it lacks {reason}")
        else:
            yield contender


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").partition(": ")[2])
    add = parser.add_argument
    add("--messages", type=int, default=1_000_000, metavar="N", help="size of the input")
    add("--rounds", type=int, default=3, metavar="N", help="runs of each, of which the median counts")
    add("--peers", action="store_true", help="run the peers too")
    add("--peer-rounds", type=int, default=1, metavar="N", help="runs of each peer")
    add("--workload", action="append", choices=list(WORKLOADS), help="only this one; repeat for more")
    add("--engine", action="append", choices=list(CONTENDERS), help="only this one and the loop; repeat for more")
    add("--limit", type=float, default=120, metavar="S", help="seconds after which a run is stopped")
    add("--rate", type=int, default=1_000, metavar="N", help="messages per second of the runs for latency, 0 for none")
    add("--seconds", type=float, default=20, metavar="S", help="seconds of a run for latency")
    add("--broker", type=Path, default=FOLDER, metavar="DIR", help="where the broker keeps its data")
    add("--output", type=Path, default=LATEST, metavar="FILE", help="where to save the figures")
    add("--profile", choices=list(CONTENDERS), help="tell where the time of this one goes, in place of that")
    add("--publish", action="store_true", help="only write the figures that are there into the documentation")
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
