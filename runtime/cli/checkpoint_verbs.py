"""The command line: `fluvial checkpoint show`, `set`, `export` and `import`."""

from pathlib import Path
from typing import Any

import typer
from msgspec import structs
from rich.table import Table

from ..local.input_offsets import InputOffset
from ..pipeline_loader import load_pipeline
from ..pipeline_offsets import SetOffsets, committed_offsets, export_offsets, import_offsets, set_offsets
from ..systems import DEFAULT_SYSTEM
from . import arguments as words
from . import state_arguments as state_words
from .option_values import elasticity_of, group_by_of, named_system, start_points_of
from .printing import console, print_json, say
from .settings_file import settings_with

checkpoint = typer.Typer(
    name="checkpoint",
    help="Show, set, export and import the offsets from which a pipeline goes on.",
    no_args_is_help=True,
)


@checkpoint.command("show")
def show_verb(
    target: words.Target,
    engine: state_words.ResetEngine = "local",
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    state_dir: words.StateDir = None,
    elasticity: words.PlanElasticity = None,
    group_by: words.PlanGroupBy = None,
    as_json: words.Json = False,
) -> None:
    """Show the committed offset of each task in each partition that it reads, and its lag. The pipeline may run.

    fluvial checkpoint show visits.py
    """
    options = _run_options(engine, system, kafka_conf, state_dir, elasticity, group_by)
    rows = committed_offsets(load_pipeline(target), **options)
    if as_json:
        print_json(rows)
    elif rows:
        console().print(_table(rows))
    else:
        print("nothing is committed yet")


@checkpoint.command("set")
def set_verb(
    target: words.Target,
    inputs: state_words.SetInputs,
    dry_run: state_words.SetDryRun = False,
    engine: state_words.ResetEngine = "local",
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    state_dir: words.StateDir = None,
    elasticity: words.PlanElasticity = None,
    group_by: words.PlanGroupBy = None,
    as_json: words.Json = False,
) -> None:
    """Set the offsets from which the next run reads inputs. State and watermarks stay. Refused while it runs.

    fluvial checkpoint set visits.py --input clicks=2026-03-01T12:00:00Z --input orders/0=120
    """
    points = start_points_of("--input", inputs, named=True)
    options = _run_options(engine, system, kafka_conf, state_dir, elasticity, group_by)
    _print_set(set_offsets(load_pipeline(target), points, dry_run=dry_run, **options), dry_run=dry_run, as_json=as_json)


@checkpoint.command("export")
def export_verb(
    target: words.Target,
    file: state_words.OffsetsFile,
    engine: state_words.ResetEngine = "local",
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    state_dir: words.StateDir = None,
    elasticity: words.PlanElasticity = None,
    group_by: words.PlanGroupBy = None,
    as_json: words.Json = False,
) -> None:
    """Write the committed offsets of the inputs to a file, as JSON. The pipeline may run.

    fluvial checkpoint export visits.py offsets.json
    """
    options = _run_options(engine, system, kafka_conf, state_dir, elasticity, group_by)
    record, notes = export_offsets(load_pipeline(target), file, **options)
    if as_json:
        print_json(record)
    else:
        print(f"wrote the offsets of {', '.join(record.tasks)} to {file}")
    for note in notes:
        say(note)


@checkpoint.command("import")
def import_verb(
    target: words.Target,
    file: state_words.OffsetsFile,
    dry_run: state_words.SetDryRun = False,
    engine: state_words.ResetEngine = "local",
    system: words.SystemUrl = DEFAULT_SYSTEM,
    kafka_conf: words.KafkaConf = None,
    state_dir: words.StateDir = None,
    elasticity: words.PlanElasticity = None,
    group_by: words.PlanGroupBy = None,
    as_json: words.Json = False,
) -> None:
    """Set the offsets that an export has written, here or on another system. State stays. Refused while it runs.

    fluvial checkpoint import visits.py offsets.json --system kafka://elsewhere:9092
    """
    options = _run_options(engine, system, kafka_conf, state_dir, elasticity, group_by)
    done = import_offsets(load_pipeline(target), file, dry_run=dry_run, **options)
    _print_set(done, dry_run=dry_run, as_json=as_json)


def _run_options(
    engine: str,
    system: str,
    kafka_conf: Path | None,
    state_dir: str | None,
    elasticity: list[str] | None,
    group_by: list[str] | None,
) -> dict[str, Any]:
    """Where the pipeline has its checkpoints, as arguments of the functions."""
    settings = settings_with(
        state_dir=state_dir, elasticity=elasticity_of(elasticity or []), group_by=group_by_of(group_by or [])
    )
    return {"engine": engine, "system": named_system(system, kafka_conf), "settings": settings}


def _print_set(done: SetOffsets, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        changes = [{**structs.asdict(one), "set": not dry_run} for one in done.changes]
        print_json({"changes": changes, "notes": done.notes})
        return
    for change in done.changes:
        print(f"{'would set' if dry_run else 'set'} {change}")
    for note in done.notes:
        print(note)


def _table(rows: list[InputOffset]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for title in ("task", "stream", "partition", "offset", "lag", "commit"):
        table.add_column(title, justify="left" if title in ("task", "stream") else "right", no_wrap=True)
    for row in rows:
        numbers = (str(row.partition), str(row.offset), f"{row.lag:,}", f"{row.commit:,}")
        table.add_row(row.task, f"{row.stream} (between stages)" if row.between else row.stream, *numbers)
    return table
