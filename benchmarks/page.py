"""The figures as people see them: a table on the terminal, tables and a picture in the documentation."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.table import Table

from benchmarks.contenders import CONTENDERS
from benchmarks.picture import picture
from benchmarks.results import Results, Run
from benchmarks.workloads import WORKLOADS
from kafka.broker_jars import ROOT

_QUIET = 0.1
"""The share of the machine that others may use."""

PAGE = ROOT / "docs" / "guide" / "performance.md"
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "images" / "performance.svg"
_SUMMARY = {"W1": "filter and map", "W2": "counts per minute", "W4": "sessions", "W6": "joins"}
"""The workloads that the README shows, by their titles there."""
_MAKER = "make bench"
_BEGIN, _END = "<!-- figures: written by {} -->\n", "<!-- end of figures -->\n"


def table(found: Results) -> Table:
    """The figures for a terminal."""
    made = Table(title=f"{found.messages:,} messages on Kafka, commit {found.commit}")
    for name in ("workload", "engine"):
        made.add_column(name)
    for name in ("messages/s", "of the loop", "of PySpark", "CPU s per million", "peak MB", "start s", "output"):
        made.add_column(name, justify="right")
    before = None
    for run in found.runs:
        if before not in (None, run.workload):
            made.add_section()
        before = run.workload
        made.add_row(
            run.workload,
            CONTENDERS[run.engine].title,
            f"{run.messages_per_second:,}",
            f"{run.ratio_to_raw:.2f}{_target(run)}",
            "" if run.ratio_to_pyspark is None else f"{run.ratio_to_pyspark:.2f}",
            f"{run.cpu_seconds_per_million:.1f}",
            f"{run.peak_rss_mb:,}",
            f"{run.startup_seconds:.1f}",
            _output(run),
        )
    return made


def _target(run: Run) -> str:
    """What the local engine is to reach, behind what it has reached."""
    target = WORKLOADS[run.workload].target if run.engine == "local" else None
    return "" if target is None else f", target {target:.2f}"


def _output(run: Run) -> str:
    if run.output_correct:
        return "correct"
    if not run.messages_per_second:
        return "failed"
    return "not finished" if run.partial else "wrong"


def publish(found: Results) -> None:
    """Write the figures into the documentation and the README."""
    for page, text in ((PAGE, figures(found)), (README, summary(found))):
        write_figures(page, text)
    PICTURE.write_text(picture(found), encoding="utf-8")


def write_figures(page: Path, text: str, maker: str = _MAKER) -> None:
    """Write figures into their place in a page, which names what has made them."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(_BEGIN.format(maker))
    if not begin:
        raise ValueError(f"{page} has no place for figures: a line {_BEGIN.format(maker).strip()}, and its end")
    page.write_text(before + begin + text + _END + rest.partition(_END)[2], encoding="utf-8")


def published(page: Path, maker: str = _MAKER) -> str:
    """The figures that are in a page."""
    return page.read_text(encoding="utf-8").partition(_BEGIN.format(maker))[2].partition(_END)[0]


def summary(found: Results) -> str:
    """The few figures that the README shows, with commit and date, as Markdown."""
    runs = [run for run in found.runs if run.workload in _SUMMARY]
    measured = f"Measured on {found.date} at commit `{found.commit}`; what has changed since is not in these figures."
    return "\n".join([*_matrix(runs, _rate, _SUMMARY), "", measured]) + "\n"


def figures(found: Results) -> str:
    """The figures as Markdown."""
    parts = [_setting(found), *_warning(found), "![Speed beside the loop by hand](../images/performance.svg)"]
    for title, tell in _TABLES.items():
        parts.append("\n".join([f"**{title}**", "", *_matrix(found.runs, tell)]))
    if any(run.partial or not run.output_correct for run in found.runs):
        parts.append("\\* stopped at the time limit: what was done until then. † the output was not what it must be.")
    if found.latencies:
        parts.append("\n".join(_latencies(found)))
    if found.shares:
        parts.append("\n".join(_shares(found)))
    return "\n\n".join(parts) + "\n"


def _setting(found: Results) -> str:
    machine, versions = found.machine, dict(found.versions)
    python, kafka = versions.pop("python"), versions.pop("kafka")
    joined = WORKLOADS["W6"].size(found.messages)
    others = ", ".join(f"{name} {version}" for name, version in versions.items())
    return (
        f"{found.messages:,} messages of about 185 bytes (W5: a fifth of them; W6: {joined:,} orders and payments of "
        f"about 80), measured on {found.date} at commit `{found.commit}`, "
        f"{machine['processor']}, {machine['cores']} cores and {machine['memory']} for contender, broker and harness "
        f"together; Kafka {kafka}, Python {python}; {others}."
    )


def _warning(found: Results) -> Iterator[str]:
    noise = max((run.noise for run in found.runs), default=0.0)
    if noise > _QUIET:
        yield f"**The machine was not quiet.** Others used up to {noise:.0%} of it during a run: measure again."


def _matrix(runs: Sequence[Run], tell: Callable[[Run], str], titles: Mapping[str, str] | None = None) -> Iterator[str]:
    """A row for each contender, a column for each workload; `titles` are the headings of the columns."""
    workloads = [name for name in WORKLOADS if any(run.workload == name for run in runs)]
    cell_of = {(run.engine, run.workload): tell(run) for run in runs}
    yield f"| | {' | '.join((titles or {}).get(name, name) for name in workloads)} |"
    yield f"|---|{'---:|' * len(workloads)}"
    for engine in dict.fromkeys(run.engine for run in runs):
        cells = (cell_of.get((engine, name), "") for name in workloads)
        yield f"| {CONTENDERS[engine].title} | {' | '.join(cells)} |"


def _speed(run: Run) -> str:
    if not run.messages_per_second:
        return "failed"
    beside = "" if run.ratio_to_pyspark is None else f", {run.ratio_to_pyspark:.2f} of PySpark"
    return f"{_rate(run)} ({_ratio(run.ratio_to_raw)}{_target(run)}{beside})"


def _rate(run: Run) -> str:
    if not run.messages_per_second:
        return "failed"
    mark = "" if run.output_correct else "\\*" if run.partial else "†"
    return f"{run.messages_per_second:,}{mark}"


def _ratio(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio >= 0.1 else f"{ratio:.3f}"


def _latencies(found: Results) -> Iterator[str]:
    rates = {latency.messages_per_second for latency in found.latencies}
    yield f"**Latency in ms of W1 at {', '.join(f'{rate:,}' for rate in sorted(rates))} messages per second**"
    yield ""
    yield "| | median | 99 % are below | worst |"
    yield "|---|---:|---:|---:|"
    for latency in found.latencies:
        numbers = f"{latency.p50_ms:,.0f} | {latency.p99_ms:,.0f} | {latency.worst_ms:,.0f}"
        yield f"| {CONTENDERS[latency.engine].title} | {numbers} |"


def _shares(found: Results) -> Iterator[str]:
    """A row for each part of the local engine, and one for all of the loop by hand."""
    workloads = list(dict.fromkeys(share.workload for share in found.shares))
    spent = {(share.engine, share.part, share.workload): share.nanoseconds for share in found.shares}
    yield "**Where the main thread's processor time goes: nanoseconds a message of the input**"
    yield ""
    yield f"| | {' | '.join(workloads)} |"
    yield f"|---|{'---:|' * len(workloads)}"
    for engine, part in dict.fromkeys((share.engine, share.part) for share in found.shares):
        cells = (f"{spent[engine, part, name]:,}" if (engine, part, name) in spent else "" for name in workloads)
        yield f"| {CONTENDERS[engine].title}: {part} | {' | '.join(cells)} |"


_TABLES: Mapping[str, Callable[[Run], str]] = {
    "Messages per second (of the loop)": _speed,
    "Peak memory in MB, all processes": lambda run: f"{run.peak_rss_mb:,}",
    "Seconds of processor time for a million messages": lambda run: f"{run.cpu_seconds_per_million:.1f}",
    "Seconds from the start to the first message": lambda run: f"{run.startup_seconds:.1f}",
}
