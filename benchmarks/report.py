"""What was found, for people and for later: a table, and a file of JSON."""

import os
import platform
import subprocess
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import msgspec
from msgspec import Struct
from rich.table import Table

from benchmarks.rounds import ROOT, Run

PACKAGES = ("fluvial", "msgspec", "rocksdict", "pyspark", "pyarrow", "pandas")


class Results(Struct, frozen=True, kw_only=True):
    """The figures with what they depend on."""

    commit: str
    versions: dict[str, str]
    machine: dict[str, str]
    messages: int
    rounds: int
    runs: list[Run]


def results(runs: list[Run], messages: int, rounds: int) -> Results:
    """The figures of now and here."""
    return Results(
        commit=_commit(), versions=_versions(), machine=_machine(), messages=messages, rounds=rounds, runs=runs
    )


def save(found: Results, file: Path) -> None:
    """Write a file of JSON."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def table(runs: Sequence[Run]) -> Table:
    """The figures as a table."""
    made = Table(title="from log to log, none with fsync")
    for name in ("workload", "engine"):
        made.add_column(name)
    for name in ("messages/s", "of loop", "of PySpark", "peak MB", "output"):
        made.add_column(name, justify="right")
    before = None
    for run in runs:
        if before not in (None, run.workload):
            made.add_section()
        before = run.workload
        failed = "[red]differs" if run.messages_per_second else "[red]failed"
        output = "same" if run.output_correct else failed
        made.add_row(
            run.workload,
            run.engine,
            f"{run.messages_per_second:,}",
            f"{run.ratio:.2f}",
            "" if run.ratio_to_pyspark is None else f"{run.ratio_to_pyspark:.2f}",
            f"{run.peak_rss_mb:,}",
            output,
        )
    return made


def _commit() -> str:
    command = ["git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _machine() -> dict[str, str]:
    return {"system": platform.platform(), "processor": _processor(), "cores": str(os.cpu_count())}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(": ")[2] for line in lines if line.startswith("model name")), platform.machine())
