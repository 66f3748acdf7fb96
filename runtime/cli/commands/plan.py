"""The verbs `plan` and `draw`: the plan of a pipeline, as tables and as a drawing."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

from ....dsl.origin import Origin
from ....dsl.pipeline import Pipeline
from ....dsl.text import plural
from ....planner.drawing import Format, View, draw
from ....planner.drawing.views import tasks_text
from ....planner.ends_of_input import DEPENDS, EndDependence, end_dependences
from ....planner.plan import Plan, PlannedStage
from ....planner.settings import Settings
from ....planner.shown_operators import in_sight
from ....planner.task_assignment import tasks_in
from ...data_frames.plan_columns import plan_columns
from ...files import STANDARD, open_output
from ...launch import engine_plan
from ...preflight.unsupported import caveats, limitations
from ...systems import System
from ..option_values import wrong_option

ENGINES = ("local", "spark")
ENDINGS: Mapping[str, Format] = {
    "svg": "svg",
    "html": "html",
    "mmd": "mermaid",
    "dot": "dot",
    "txt": "text",
    "json": "json",
}
"""Formats of drawings by the endings of files."""
_NAMES: Mapping[str, Format] = {**ENDINGS, **{format: format for format in ENDINGS.values()}}


def planned(
    pipeline: Pipeline, system: System | None, partitions: Mapping[str, int], settings: Settings | None = None
) -> Plan:
    """The plan for the partition counts of a system's streams; `partitions` overrides them."""
    existing = {} if system is None else system.admin().streams()
    # With the tasks that a pipeline has, where its topics have grown.
    plan = engine_plan(pipeline, "local", system, {**existing, **partitions}, settings or Settings())
    known = [stream.name for stream in plan.streams]
    for name, count in partitions.items():
        if name not in known:
            expected = f"a stream of {plan.name}: {', '.join(known)}"
            raise wrong_option("--partitions", f"{name}={count}", expected, "correct the name")
    return plan


def tables(plan: Plan, system: str, settings: Settings | None = None) -> RenderableType:
    """A plan as tables: its stages with their operators, its streams, its stores, and which engine can run it with
    these settings."""
    sizes = f"{plural(len(plan.stages), 'stage')}, {plural(len(plan.streams), 'stream')}"
    parts: list[RenderableType] = [Text(f"{plan.name}: {sizes}", style="bold")]
    for number, stage in enumerate(plan.stages, 1):
        parts += [
            Text(f"\nstage {number}: {_stage_name(stage)}, {tasks_text(stage)}"),
            _operators(plan, stage),
        ]
    parts += [Text("\nstreams"), _streams(plan)]
    if plan.stores:
        parts += [Text("\nstores"), _stores(plan)]
    parts += [Text("\nengines"), _engines(plan, system, settings)]
    if dependent := end_dependences(plan):
        parts += [Text(f"\n--until end\n  {DEPENDS}: use --until caught-up"), _end_dependences(dependent)]
    return Group(*parts)


def columns_table(plan: Plan) -> RenderableType:
    """The columns that each stream has in a DataFrame of Spark's."""
    rows: list[tuple[str, ...]] = []
    for stream in plan_columns(plan):
        rows += [
            (stream.stream, stream.kind, column.name, column.type, "" if column.required else "may be left out")
            for column in stream.columns
        ]
        if stream.why_none:
            rows.append((stream.stream, stream.kind, "-", "-", f"no columns: {stream.why_none}"))
    heads = ("stream", "kind", "column", "type", "")
    noted = any(row[-1] for row in rows)  # an empty column would take its room from the others
    return _table(heads, rows) if noted else _table(heads[:-1], [row[:-1] for row in rows])


def _stage_name(stage: PlannedStage) -> str:
    """The name of a stage, and of its first task if the tasks are named otherwise."""
    return stage.name if stage.name == stage.id else f"{stage.name} (tasks {tasks_in(stage)[0].name} ...)"


def _operators(plan: Plan, stage: PlannedStage) -> RenderableType:
    rows = []
    for operator in (operator for operator in in_sight(plan) if operator.stage == stage.id):
        details = ", ".join(f"{name}={value}" for name, value in operator.details.items())
        where = str(Origin(operator.file, operator.line))
        rows.append((operator.label, operator.role, operator.value or "-", details, where, operator.id))
    return _table(("operator", "role", "emits", "options", "at", "id"), rows)


def _streams(plan: Plan) -> RenderableType:
    rows = [
        (stream.name, stream.kind, str(stream.partitions), stream.key or "-", stream.value or "-")
        for stream in plan.streams
    ]
    return _table(("stream", "kind", "partitions", "key", "value"), rows)


def _stores(plan: Plan) -> RenderableType:
    rows = [(store.operator, store.stage, store.key, store.value, store.changelog) for store in plan.stores]
    return _table(("of", "stage", "key", "value", "changelog"), rows)


def _engines(plan: Plan, system: str, settings: Settings | None) -> RenderableType:
    rows = []
    for engine in ENGINES:
        lacking = limitations(plan, engine, system, settings)
        unsupported = [f"cannot run {one.subject}; {one.reason}" for one in lacking]
        remarks = [f"{one.subject}: {one.reason}" for one in caveats(plan, engine, system, settings)]
        rows.append((engine, "; ".join([*(unsupported or ["runs all of it"]), *remarks])))
    return _table((), rows)


def _end_dependences(dependent: Iterable[EndDependence]) -> RenderableType:
    return _table((), [(one.operator, one.reason, str(one.origin)) for one in dependent])


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    columns = (Column(head, overflow="fold") for head in heads)  # nothing is cut off where there is little room
    table = Table(*columns, box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0), show_header=bool(heads))
    for row in rows:
        table.add_row(*map(Text, row))
    return Padding(table, (0, 0, 0, 2), expand=False)


def drawing(plan: Plan, path: str, format: str | None, view: View) -> str:
    """Draw a plan in a format; by default that of the file's ending, and text on standard output."""
    ending = "txt" if path == STANDARD else Path(path).suffix.removeprefix(".")
    named = format or ending
    kind = _NAMES.get(named)
    if kind is None:
        option = "--format" if format else "-o"
        expected = f"one of the formats {', '.join(ENDINGS)}"
        raise wrong_option(option, format or path, expected, "name one: -o plan.svg, or --format svg")
    return draw(plan, kind, view=view)


def save(text: str, path: str) -> None:
    """Write a drawing to a file, `-` for standard output."""
    with open_output(path) as file:
        file.write(text.encode() if text.endswith("\n") else text.encode() + b"\n")
