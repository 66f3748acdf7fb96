"""Run the queries over a log, check what they write, and tell how long they take: `python -m benchmarks.nexmark`."""

import tempfile
import time
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from benchmarks.nexmark.events import Event, Records, events, records
from benchmarks.nexmark.oracles import comparable, expected
from benchmarks.nexmark.queries import QUERIES, RESULT, pipeline
from fluvial.planner import Settings
from fluvial.runtime import run
from fluvial.runtime.systems import LogSystem


def filled(folder: Path, found: Records) -> LogSystem:
    """A log with the input of all queries."""
    system = LogSystem(folder, fsync=False)
    for stream, partitions in found.items():
        system.admin().create(stream, len(partitions))
        writing = system.producer().begin()
        for number, part in enumerate(partitions):
            writing.append(stream, number, part)
        writing.commit()
    return system


def written(system: LogSystem) -> list[dict[str, object]]:
    """The results of a query, decoded."""
    ends = system.admin().ends(RESULT)
    consumer = system.consumer()
    consumer.assign({(RESULT, number): 0 for number in range(len(ends))})
    values: list[bytes] = []
    while len(values) < sum(ends):
        values += [record[1] or b"" for batch in consumer.poll() for record in batch.records]
    return [msgspec.json.decode(value) for value in values]


def measured(query: str, found: list[Event], engine: Literal["local", "spark"]) -> tuple[float, int, bool]:
    """The seconds that a query takes, how many results it has, and whether they are right."""
    with tempfile.TemporaryDirectory() as folder:
        system = filled(Path(folder), records(found))
        began = time.perf_counter()
        run(pipeline(query), engine=engine, system=system, until="end", settings=Settings(spark_buckets=2))
        seconds = time.perf_counter() - began
        results = written(system)
    return seconds, len(results), comparable(query, results) == expected(query, found)


def main(
    count: Annotated[int, typer.Option("--events", min=50, help="How many events the auction house has.")] = 100_000,
    query: Annotated[list[str] | None, typer.Option(help="A query such as q5; all if none is named.")] = None,
    engine: Annotated[str, typer.Option(help="local or spark.")] = "local",
) -> None:
    """Run Nexmark queries and check their results against plain Python."""
    unknown = [name for name in query or [] if name not in QUERIES]
    if unknown or engine not in ("local", "spark"):
        known = f"--query one of {', '.join(QUERIES)}; --engine local or spark"
        raise typer.BadParameter(f"{', '.join(unknown) or engine}: expected {known}")
    found = events(count)
    table = Table("query", "seconds", "events/s", "results", "right", title=f"Nexmark, {count:,} events, {engine}")
    wrong = False
    for name in query or QUERIES:
        seconds, results, right = measured(name, found, "spark" if engine == "spark" else "local")
        table.add_row(name, f"{seconds:.2f}", f"{count / seconds:,.0f}", f"{results:,}", "yes" if right else "NO")
        wrong |= not right
    Console().print(table)
    raise typer.Exit(int(wrong))


if __name__ == "__main__":
    typer.run(main)
