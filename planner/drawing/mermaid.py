"""Mermaid: a flowchart that GitHub and many editors show."""

import re
from collections.abc import Iterator, Mapping

from ..plan import Plan
from . import View
from .scene import Drawing, EdgeKind, Look, Node
from .views import scene

# A role is shown by shape too: what only passes on, what ends in double sides, what keeps (a drum).
_SHAPES: Mapping[Look, tuple[str, str]] = {
    "non-terminal": ("[", "]"),
    "terminal": ("[[", "]]"),
    "both": ("[(", ")]"),
    "stage": ("[", "]"),
}
_STREAM = ("([", "])")
_ARROWS: Mapping[EdgeKind, str] = {"flow": "-->", "border": "==>", "aside": "-.->"}
_STYLES: Mapping[str, str] = {
    "non-terminal": "fill:#dcebf7,stroke:#0072b2,color:#111",
    "terminal": "fill:#fbe3d3,stroke:#b84a00,color:#111,stroke-width:3px",
    "both": "fill:#d5f0e6,stroke:#00795a,color:#111,stroke-width:2px",
    "stage": "fill:#f4f4f4,stroke:#666,color:#111",
    "stream": "fill:#ffffff,stroke:#555,color:#111",
    "aside": "fill:#ffffff,stroke:#555,color:#111,stroke-dasharray:4 3",
}
_CLASSES: Mapping[Look, str] = {"late": "aside", "dead-letters": "aside"}


def write(plan: Plan, view: View) -> str:
    """A view of a plan as Mermaid text."""
    return "\n".join(_lines(scene(plan, view))) + "\n"


def _lines(drawing: Drawing) -> Iterator[str]:
    names = {node.id: f"n{at}" for at, node in enumerate(drawing.nodes)}
    nodes = {node.id: node for node in drawing.nodes}
    grouped = {id for group in drawing.groups for id in group.members}
    yield "flowchart TB"
    for at, group in enumerate(drawing.groups):
        yield f"  subgraph s{at}[{quoted(group.title)}]"
        yield from (f"    {_node(nodes[id], names[id])}" for id in group.members)
        yield "  end"
    yield from (f"  {_node(node, names[node.id])}" for node in drawing.nodes if node.id not in grouped)
    for edge in drawing.edges:
        label = "" if edge.label is None else f"|{quoted(edge.label)}|"
        yield f"  {names[edge.source]} {_ARROWS[edge.kind]}{label} {names[edge.target]}"
    if drawing.groups:
        yield f"  class {','.join(f's{at}' for at in range(len(drawing.groups)))} stage"
    yield from (f"  classDef {name} {style}" for name, style in _STYLES.items())


def _node(node: Node, name: str) -> str:
    left, right = _SHAPES.get(node.look, _STREAM)
    style = node.look if node.look in _STYLES else _CLASSES.get(node.look, "stream")
    return f"{name}{left}{quoted(*(line.text for line in node.lines))}{right}:::{style}"


def quoted(*lines: str) -> str:
    """Text between quotes, in which no character means anything to Mermaid, Markdown or HTML."""
    return '"' + "<br/>".join(_escaped(line) for line in lines) + '"'


def _escaped(text: str) -> str:
    # Two dollars would begin a formula, wherever they come from: an invisible letter keeps them apart.
    text = re.sub(r"\$(?=\$)", "$\u2060", text)
    # A leading "1." or "-" would be read as a list.
    start = re.match(r"[0-9]+\.|-", text)
    length = len(start.group()) - 1 if start else len(text)
    return _coded(text[:length]) + (f"#{ord(text[length])};" + _coded(text[length + 1 :]) if start else "")


def _coded(text: str) -> str:
    return re.sub("[^\\w .,:/()=·\N{MULTIPLICATION SIGN}→…+-]", lambda match: f"#{ord(match.group())};", text)
