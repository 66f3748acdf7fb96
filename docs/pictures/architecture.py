"""The picture of `docs/architecture.md`: the packages, from what a user writes down to the clients of other systems."""

from dataclasses import dataclass
from pathlib import Path

from fluvial.planner.drawing.xml import element, escaped

FILE = Path(__file__).parents[1] / "images" / "architecture.svg"

WIDTH, LEFT, GAP, LINE = 860, 20, 20, 17
BOX, ARROW = 74, 44

STYLE = """.house { max-width: 100%; height: auto; }
.house text { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
.house .paper { fill: #ffffff; }
.house rect { stroke-width: 1.3; }
.house .written { fill: #fdeadc; stroke: #b84a00; }
.house .engine { fill: #e3effa; stroke: #0072b2; }
.house .shared { fill: #d9f2e8; stroke: #00795a; }
.house .edge { fill: #f5f6f8; stroke: #5b6472; }
.house .title { fill: #14181f; font-size: 14px; font-weight: 600; }
.house .text, .house .flow { fill: #46505e; font-size: 12px; }
.house .flow { font-style: italic; }
.house .arrow { stroke: #6b7482; stroke-width: 1.4; fill: none; marker-end: url(#head); }
.house .head { fill: #6b7482; }
@media (prefers-color-scheme: dark) {
  .house .paper { fill: #15181d; }
  .house .written { fill: #4a2509; stroke: #f0934a; }
  .house .engine { fill: #12314a; stroke: #56b4e9; }
  .house .shared { fill: #0c3a2d; stroke: #3fc79c; }
  .house .edge { fill: #20252d; stroke: #9aa4b1; }
  .house .title { fill: #f0f3f7; }
  .house .text, .house .flow { fill: #b9c2ce; }
  .house .arrow { stroke: #8f99a7; }
  .house .head { fill: #8f99a7; }
}"""


@dataclass(frozen=True, slots=True)
class Box:
    """A package, or several that do one job; `lines` say what it holds."""

    packages: tuple[str, ...]
    lines: tuple[str, str]
    look: str


@dataclass(frozen=True, slots=True)
class Row:
    """Boxes of one layer. `flow` says what each of them hands to the next layer; empty under the last one."""

    boxes: tuple[Box, ...]
    flow: str = ""


ROWS = (
    Row(
        (
            Box(
                ("dsl",),
                ("the verbs of a pipeline, and the operators that they add to its graph", "operators, graph"),
                "written",
            ),
        ),
        "a graph of operators, each a frozen record",
    ),
    Row(
        (
            Box(
                ("planner",),
                ("checks, types, stages, streams, stores; drawings of them", "kinds: a row for each operator"),
                "written",
            ),
        ),
        "a Plan: stages joined by intermediate streams",
    ),
    Row(
        (
            Box(
                ("runtime/cli", "runtime/containers", "runtime/autosize", "runtime/preflight", "runtime/process"),
                ("commands, supervisor of processes and their number, checks before a start, signals", "launch: run()"),
                "edge",
            ),
        ),
        "the plan, a system, and settings, to one of the engines",
    ),
    Row(
        (
            Box(
                ("runtime/local",),
                ("one process per container, one event loop", "commit, coordination, stores, observe"),
                "engine",
            ),
            Box(
                ("runtime/spark",),
                ("queries of Structured Streaming", "lowering, query, worker, connectors"),
                "engine",
            ),
        ),
        "batches of records, watermarks, processing time",
    ),
    Row(
        (
            Box(
                ("runtime/kernel",),
                (
                    "the meaning of the operators: a StageTask for each task of a stage",
                    "compiler, operators, windows, time, calls",
                ),
                "shared",
            ),
        ),
        "through the engine, in one commit: outputs, changes of state, offsets and watermarks",
    ),
    Row(
        (
            Box(("runtime/systems",), ("streams: Kafka,", "embedded log, memory"), "edge"),
            Box(("runtime/state",), ("stores: RocksDB,", "memory"), "edge"),
            Box(("runtime/serdes",), ("Avro, Protobuf,", "schema registry"), "edge"),
            Box(("runtime/metrics",), ("samples, Prometheus,", "fluvial top"), "edge"),
        ),
    ),
)


def packages() -> set[str]:
    """The packages that the picture shows."""
    return {package for row in ROWS for box in row.boxes for package in box.packages}


def drawn() -> str:
    """The picture as SVG."""
    parts, top = [], GAP
    for row in ROWS:
        parts += _row(row, top)
        if row.flow:
            parts += _flow(row, top + BOX)
        top += BOX + ARROW
    height = top - ARROW + GAP
    head = element("path", d="M0,0 L8,4 L0,8 z", class_="head")
    marker = element(
        "marker", head, id="head", viewBox="0 0 8 8", refX=7, refY=4, markerWidth=8, markerHeight=8, orient="auto"
    )
    return element(
        "svg",
        element("title", "The packages of Fluvial"),
        element("style", STYLE),
        element("defs", marker),
        element("rect", class_="paper", width=WIDTH, height=height),
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        width=WIDTH,
        height=height,
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        class_="house",
    )


def _places(row: Row) -> list[tuple[Box, float, float]]:
    """Each box of a row with its left edge and its width."""
    width = (WIDTH - 2 * LEFT - GAP * (len(row.boxes) - 1)) / len(row.boxes)
    return [(box, LEFT + (width + GAP) * number, width) for number, box in enumerate(row.boxes)]


def _row(row: Row, top: int) -> list[str]:
    parts = []
    for box, left, width in _places(row):
        parts.append(element("rect", class_=box.look, x=left, y=top, width=width, height=BOX, rx=6))
        texts = [("title", ", ".join(box.packages)), *(("text", line) for line in box.lines)]
        parts += [
            element("text", escaped(text), class_=look, x=left + 12, y=top + 22 + (LINE + 2) * number)
            for number, (look, text) in enumerate(texts)
        ]
    return parts


def _flow(row: Row, top: int) -> list[str]:
    """An arrow under each box of a row, and beside the first one what goes along it."""
    lefts = [left for _, left, _ in _places(row)]
    arrows = [element("path", class_="arrow", d=f"M{left + 24:g},{top} V{top + ARROW - 2}") for left in lefts]
    return [*arrows, element("text", escaped(row.flow), class_="flow", x=LEFT + 36, y=top + ARROW / 2 + 4)]
