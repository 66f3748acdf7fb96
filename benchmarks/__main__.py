"""`python -m benchmarks`: measure engines and peers beside a loop by hand, on one broker, and save the figures."""

import argparse
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from benchmarks.cell import Measured, measure
from benchmarks.contenders import CONTENDERS, Contender, Group, chosen, lacking
from benchmarks.events import events
from benchmarks.latency import latency
from benchmarks.oracle import expected
from benchmarks.page import publish, table
from benchmarks.results import LATEST, Latency, Run, load, results, save, summed_up
from benchmarks.topics import Tell, Topics
from benchmarks.topics import load as load_topic
from benchmarks.workloads import WORKLOADS, Workload
from broker import Broker
from broker_jars import ROOT

FOLDER = ROOT / ".kafka" / "bench"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 0 if every output that is whole was correct."""
    given = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 140)
    if given.publish:
        publish(load(given.output))
        return 0
    contenders = list(_able(chosen(given.engine, _groups(given)), _tell))
    with serving(given.broker) as topics:
        workloads = [WORKLOADS[name] for name in given.workload or WORKLOADS]
        runs = [run for workload in workloads for run in _compare(workload, contenders, given, topics)]
        latencies = list(_latencies(contenders, given, topics))
    found = results(given.messages, runs, latencies)
    save(found, given.output)
    if given.output == LATEST:
        publish(found)
    console.print(table(found))
    return 0 if all(run.output_correct for run in runs if CONTENDERS[run.engine].group == "own") else 1


@contextmanager
def serving(folder: Path) -> Iterator[Topics]:
    """A broker that keeps its data in a folder; whoever ends the harness ends it too."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder.mkdir(parents=True, exist_ok=True)
    with Broker(folder) as broker:
        topics = Topics(broker.address)
        try:
            yield topics
        finally:
            topics.close()


def _compare(
    workload: Workload, contenders: Sequence[Contender], given: argparse.Namespace, topics: Topics
) -> list[Run]:
    """Rounds in which each contender runs once, so that a busy machine is busy for all of them."""
    count = workload.events(given.messages)
    source = load_topic(topics, count, _tell)
    wanted = expected(workload.name, events(count))
    rounds: list[dict[str, Measured]] = []
    for number in range(given.rounds):
        rounds.append({})
        for contender in contenders:
            if workload.name in contender.cannot or (contender.group == "peer" and number >= given.peer_rounds):
                continue
            found = measure(contender, workload, topics, source, count, wanted, given.limit)
            rounds[-1][contender.name] = found
            _tell(f"{workload.name}, round {number + 1}: {contender.name} {_said(found)}")
    return summed_up(workload, rounds)


def _said(found: Measured) -> str:
    if found.ending == "failed":
        return f"failed\n{found.problem}"
    state = "" if found.verdict is None or found.verdict.correct else f", {found.ending}, {found.verdict}"
    return f"{found.speed:,.0f}/s, {found.peak_rss_mb:,} MB, noise {found.noise:.0%}{state}"


def _latencies(contenders: Sequence[Contender], given: argparse.Namespace, topics: Topics) -> Iterator[Latency]:
    for contender in contenders if given.rate else ():
        found = latency(contender, topics, given.rate, given.seconds)
        if isinstance(found, Latency):
            _tell(f"latency: {contender.name} p50 {found.p50_ms} ms, p99 {found.p99_ms} ms")
            yield found
        else:
            _tell(f"latency: {contender.name} failed\n{found}")


def _able(contenders: Sequence[Contender], tell: Tell) -> Iterator[Contender]:
    for contender in contenders:
        if reason := lacking(contender):
            tell(f"{contender.name} is left out; it lacks {reason}")
        else:
            yield contender


def _groups(given: argparse.Namespace) -> list[Group]:
    return ["own", "peer"] if given.peers else ["own"]


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
    add("--publish", action="store_true", help="only write the figures that are there into the documentation")
    return parser


if __name__ == "__main__":
    sys.exit(main())
