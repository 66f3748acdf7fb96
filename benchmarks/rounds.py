"""Rounds in which each contender runs once, so that a busy machine is busy for all of them; and the medians."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.cell import Cell, Measured, measure
from benchmarks.contenders import BASELINE, BY_SPARK, Contender
from benchmarks.oracle import expected
from benchmarks.results import Run
from benchmarks.topics import Tell, Topics, load
from benchmarks.workloads import Workload


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured: messages of the whole input, rounds of ours and of peers, seconds of a run at most."""

    messages: int
    rounds: int = 1
    peer_rounds: int = 1
    limit: float = 120.0


def prepared(workload: Workload, size: Size, topics: Topics, tell: Tell) -> Callable[[Contender], Cell]:
    """Load the input of a workload, and find what must come of it: a cell for each contender."""
    sources = load(topics, workload.sources, workload.count(size.messages), tell)
    wanted = expected(workload.name, *workload.inputs(size.messages))
    return lambda contender: Cell(contender, workload, sources, workload.size(size.messages), wanted, size.limit)


def compare(workload: Workload, contenders: Sequence[Contender], size: Size, topics: Topics, tell: Tell) -> list[Run]:
    """Measure contenders on a workload."""
    cell_of = prepared(workload, size, topics, tell)
    rounds: list[dict[str, Measured]] = []
    for number in range(size.rounds):
        rounds.append({})
        for contender in contenders:
            if workload.name in contender.cannot or (contender.group == "peer" and number >= size.peer_rounds):
                continue
            found = measure(cell_of(contender), topics)
            rounds[-1][contender.name] = found
            tell(f"{workload.name}, round {number + 1}: {contender.name} {_said(found)}")
    return summed_up(workload.name, rounds)


def _said(found: Measured) -> str:
    if found.ending == "failed":
        return f"failed\n{found.problem}"
    state = "" if found.verdict is None or found.verdict.correct else f", {found.ending}, {found.verdict}"
    return f"{found.speed:,.0f}/s, {found.peak_rss_mb:,} MB, noise {found.noise:.0%}{state}"


def summed_up(workload: str, rounds: Sequence[Mapping[str, Measured]]) -> list[Run]:
    """The medians on a workload; a contender may be missing in some rounds."""
    names = dict.fromkeys(name for found in rounds for name in found)
    return [_run(name, workload, [found for found in rounds if name in found]) for name in names]


def _run(name: str, workload: str, rounds: Sequence[Mapping[str, Measured]]) -> Run:
    found = [measured[name] for measured in rounds]
    dear = [m.cpu_seconds / m.messages * 1e6 for m in found if m.messages]
    return Run(
        engine=name,
        workload=workload,
        messages_per_second=round(median(m.speed for m in found)),
        ratio_to_raw=_ratio(name, BASELINE, rounds) or 0.0,
        ratio_to_pyspark=_ratio(name, BY_SPARK, rounds) if name == "spark" else None,
        peak_rss_mb=round(median(m.peak_rss_mb for m in found)),
        cpu_seconds_per_million=round(median(dear or [0.0]), 2),
        startup_seconds=round(median(m.startup_seconds for m in found), 2),
        output_correct=all(m.verdict is not None and m.verdict.correct and m.ending == "done" for m in found),
        partial=any(m.ending == "limit" for m in found),
        noise=max(m.noise for m in found),
        rounds=[round(m.speed) for m in found],
        problem=next((m.problem for m in found if m.problem), ""),
    )


def _ratio(name: str, base: str, rounds: Sequence[Mapping[str, Measured]]) -> float | None:
    pairs = [(found[name].speed, found[base].speed) for found in rounds if base in found and found[base].speed]
    return round(median(speed / of for speed, of in pairs), 3) if pairs else None
