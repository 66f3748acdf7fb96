"""Visitor sessions on both engines: makes traffic, runs the pipeline twice, compares, and draws the plan.

make demo                                     # or: python -m examples.demo
python -m examples.demo --engine local        # without Spark
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from examples import traffic
from examples.visitor_sessions import Session, pipeline
from fluvial.planner import draw, plan
from fluvial.runtime import Report, open_system, run
from fluvial.runtime.preflight.requirements import missing
from fluvial.runtime.systems import System

EngineName = Literal["local", "spark"]

PARTITIONS = 4
SHOWN = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one engine made of the traffic."""

    engine: EngineName
    report: Report
    sessions: list[Session]
    dead_letters: int


def write_lines(system: System, lines: Sequence[str]) -> None:
    """Fill the stream that the pipeline reads; line i goes to partition i modulo their number."""
    system.admin().create("access-log", PARTITIONS)
    now = int(time.time() * 1000)
    producer = system.producer()
    writing = producer.begin()
    for partition in range(PARTITIONS):
        writing.append(
            "access-log", partition, [(None, line.encode(), now, ()) for line in lines[partition::PARTITIONS]]
        )
    writing.commit()
    producer.close()


def read_values(system: System, stream: str) -> Iterator[bytes]:
    """All values of a stream, in no order between its partitions."""
    consumer = system.consumer()
    consumer.assign({(stream, partition): 0 for partition in range(len(system.admin().ends(stream)))})
    while batches := consumer.poll():
        for batch in batches:
            yield from (value for _, value, _, _ in batch.records if value is not None)
    consumer.close()


def run_on(engine: EngineName, lines: Sequence[str], folder: Path) -> Outcome:
    """Run the pipeline over the lines, in a log of its own."""
    system = open_system(f"log:{folder / engine}")
    write_lines(system, lines)
    report = run(pipeline, engine=engine, system=system, until="end", spark="local[2]" if engine == "spark" else None)
    sessions = sorted(
        (msgspec.json.decode(value, type=Session) for value in read_values(system, "sessions")),
        key=lambda visit: (visit.start, visit.visitor),
    )
    return Outcome(engine, report, sessions, len(list(read_values(system, "visitor-sessions-dead-letters"))))


def comparison(outcomes: Sequence[Outcome]) -> Table:
    """The first sessions of each engine side by side, and what each made in all."""
    table = Table(title="sessions, by their beginning", show_footer=True)
    table.add_column("begin", footer="in all")
    for outcome in outcomes:
        pages = sum(visit.pages for visit in outcome.sessions)
        table.add_column(f"{outcome.engine}: visitor", footer=f"{len(outcome.sessions):,} sessions")
        table.add_column("pages", justify="right", footer=f"{pages:,}")
        table.add_column("from", footer=f"{outcome.dead_letters} dead letters")
        table.add_column("to", footer=f"{outcome.report.seconds:.1f} s")
    for visits in zip(*(outcome.sessions[:SHOWN] for outcome in outcomes), strict=False):
        begin = time.strftime("%H:%M:%S", time.gmtime(visits[0].start / 1000))
        cells = ((visit.visitor, str(visit.pages), visit.entry_page, visit.exit_page) for visit in visits)
        table.add_row(begin, *(cell for row in cells for cell in row))
    return table


def draw_plan(folder: Path) -> list[Path]:
    """Draw the plan of the pipeline; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    made = plan(pipeline, partitions={"access-log": PARTITIONS})
    files = []
    for format in ("svg", "html"):
        file = folder / f"visitor-sessions.{format}"
        file.write_text(draw(made, format), encoding="utf-8")
        files.append(file)
    return files


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; 0 if the engines agree."""
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine", choices=("both", "local"), default="both", help="what to run it on")
    parser.add_argument("--requests", type=int, default=5_000, metavar="N", help="how much traffic to make")
    parser.add_argument("--drawings", type=Path, default=Path("build"), metavar="DIR", help="where to draw the plan")
    given = parser.parse_args(arguments)
    # As wide as the table where there is no terminal.
    console = Console(width=None if sys.stdout.isatty() else 160)

    lines = traffic.lines(given.requests)
    console.print(f"{len(lines):,} lines of {traffic.VISITORS} visitors in {PARTITIONS} partitions; the first two:")
    console.print(*map(Text, lines[:2]), sep="\n")
    lacking = None if given.engine == "local" else missing("spark")
    engines: list[EngineName] = ["local"] if given.engine == "local" or lacking else ["local", "spark"]
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="fluvial-demo-") as folder:
        for engine in engines:
            console.print(f"running on {engine}{', which takes half a minute to start' if engine == 'spark' else ''}")
            outcomes.append(run_on(engine, lines, Path(folder)))
    console.print(comparison(outcomes))
    same = all(
        (outcome.sessions, outcome.dead_letters) == (outcomes[0].sessions, outcomes[0].dead_letters)
        for outcome in outcomes
    )
    if lacking:
        console.print(f"Not run on Spark: {lacking.missing}. To do: {lacking.remedy}.")
    elif len(engines) > 1:
        console.print("Both engines wrote the same sessions." if same else "The engines differ!")
    console.print("The plan is drawn in", " and ".join(map(str, draw_plan(given.drawings))))
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
